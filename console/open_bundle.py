"""`breakglass bundle open`: the console on a bundle, or a list of what is in it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.cli import new_app
from breakglass.console.look import LookOptions
from breakglass.console.options import AsJson, with_groups
from breakglass.console.output import columns, print_json, print_table, say
from breakglass.services.errors import UsageError
from breakglass.services.words.inert import bounded, inert
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.bundle.archive import BundleManifest
    from breakglass.services.bundle.contents import BundleContents

app = new_app()

LENGTH = 400
NOTED = 3
"""How many unread parts the console names when it opens."""


@app.command("open")
@with_groups
def open_file(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A bundle of `breakglass bundle capture`.")
    ],
    listing: Annotated[
        bool,
        typer.Option(
            "--list", help="Check the files' hashes; print what the bundle has, and what it lacks."
        ),
    ] = False,
    as_json: AsJson = False,
    *,
    look: LookOptions,
) -> None:
    """Open the console on a bundle: look, compare, make plans; no cluster is asked or changed.

    Actions and screens that need a live cluster are greyed. A plan that is saved here runs on the
    cluster with `breakglass recover`, which reads everything again first.
    """
    from breakglass.services.bundle.contents import open_bundle

    if as_json and not listing:
        raise UsageError("--json prints what --list prints: give both.")
    contents = open_bundle(file)
    if listing:
        _list(contents.manifest, as_json=as_json)
    else:
        from breakglass.console.console import prepared_look, require_terminal, show_console
        from breakglass.console.driver import leave

        require_terminal()
        decided = prepared_look(look)
        from breakglass.console.bundle_console import BundleConsole, bundle_context

        with tempfile.TemporaryDirectory(prefix="breakglass-bundle-") as folder:
            context = bundle_context(contents, decided, Path(folder))
            code = show_console(BundleConsole, context, decided, "offline", _unread(contents))
        leave(code)


def _list(manifest: BundleManifest, *, as_json: bool) -> None:
    if as_json:
        print_json(manifest.to_json())
        return
    say(f"captured by {manifest.made_by} at {time_text(manifest.captured_at_ms)}")
    print_table(
        columns("Entry", ">Bytes", "Read at", "SHA-256"),
        [
            (entry.name, entry.size, time_text(entry.read_at_ms), entry.sha256)
            for entry in manifest.entries
        ],
    )
    files = len(manifest.entries)
    say(
        f"Checked: the SHA-256 of {files:,} file{'s' * (files != 1)}. Their contents are read when "
        "the bundle is opened."
    )
    for part in manifest.unread:
        say(f"? {part}")


def _unread(contents: BundleContents) -> list[str]:
    """What the operator has to know before looking: what was not read."""
    unread = contents.manifest.unread
    if not unread:
        return []
    more = f"; and {len(unread) - NOTED:,} more" if len(unread) > NOTED else ""
    told = inert(bounded("; ".join(map(str, unread[:NOTED])), LENGTH))
    return [f"Not in this bundle: {told}{more}; --list shows all."]
