"""The Plan screen on a canned incident, as a program for a terminal: canned_plan FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from breakglass.console.exits import guarded
from breakglass.console.look import colors_left_to_the_theme
from breakglass.console.on_terminal import leave, run_on_terminal
from breakglass.screens.terminal import Terminal
from tests.kit.incidents import every_verdict
from tests.screens.consoles import console_on


def main() -> None:
    """Run it; the folder is the state folder."""
    folder, terminal = Path(sys.argv[1]), Terminal.detect()
    with colors_left_to_the_theme():
        app = console_on(
            every_verdict(),
            theme=terminal.theme,
            terminal=terminal,
            start="plan",
            state_folder=folder,
        )
    leave(run_on_terminal(app, mouse=False, state_folder=folder))


if __name__ == "__main__":
    sys.exit(guarded(main))
