"""The console on a canned incident, as a program for a terminal: canned_console FOLDER [SCREEN].

It begins on its own *SCREEN*; without one, all its screens are the canned page.
"""

import os
import signal
import sys
from pathlib import Path

from breakglass.console import app as console_app
from breakglass.console.driver import leave, run_on_terminal
from breakglass.console.exits import guarded
from breakglass.console.look import colors_left_to_the_theme
from breakglass.screens.terminal import Terminal
from tests.kit.incidents import every_verdict
from tests.screens.consoles import console_on


def main() -> None:
    """Run it; the folder is the state folder."""
    folder, own, terminal = Path(sys.argv[1]), sys.argv[2:], Terminal.detect()
    if "BREAKGLASS_TEST_DEAF" in os.environ:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
    if not own:
        console_app.MODES = dict.fromkeys(
            console_app.MODES, "tests.terminal.canned_page:CannedPage"
        )
    with colors_left_to_the_theme():
        app = console_on(
            every_verdict(),
            theme=terminal.theme,
            terminal=terminal,
            start=own[0] if own else "offline",
            state_folder=folder,
        )
    leave(run_on_terminal(app, mouse=terminal.mouse, state_folder=folder))


if __name__ == "__main__":
    sys.exit(guarded(main))
