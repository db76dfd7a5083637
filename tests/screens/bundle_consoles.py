"""Consoles on bundles, as `breakglass bundle open` makes them."""

from pathlib import Path
from typing import Any

from breakglass.console.bundle_console import BundleConsole, bundle_context
from breakglass.console.look import LookOptions, decide_look
from breakglass.services.bundle.contents import open_bundle
from breakglass.services.incident.incident import Incident
from tests.kit.bundles import bundle_of

THEME = "breakglass-dark"


def console_of(path: Path, start: str = "offline") -> BundleConsole:
    """A console on the bundle at *path*; what it unpacks lies beside it."""
    decided = decide_look(LookOptions(THEME), path.parent)
    state = path.with_name(f"{path.name}.state")
    return BundleConsole(
        bundle_context(open_bundle(path), decided, state), theme=THEME, start=start
    )


def bundle_console(
    incident: Incident, folder: Path, start: str = "offline", **parts: Any
) -> BundleConsole:
    """A console on a bundle of *incident*, with *parts* as `tests.kit.bundles.maker_of` takes."""
    return console_of(bundle_of(incident, folder / "b.tar.gz", **parts), start)
