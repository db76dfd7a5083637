"""A browser page's console on a canned incident, in place of `console.web.session`."""

from __future__ import annotations

import sys

from breakglass.console.exits import guarded
from breakglass.console.on_terminal import leave, run_in_loop
from breakglass.console.web.session import WebConsole
from tests.incidents import every_verdict
from tests.screens.consoles import console_on


def main() -> None:
    """Run it behind stdin and stdout."""
    canned = console_on(every_verdict())
    leave(run_in_loop(WebConsole(canned.context, theme="breakglass-dark"), mouse=True))


if __name__ == "__main__":
    sys.exit(guarded(main))
