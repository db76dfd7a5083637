"""Consoles on terminals."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.terminal.pty_terminal import PtyTerminal

ROOT = Path(__file__).parents[2]
CANNED = (sys.executable, "-m", "tests.terminal.canned_console")
KEPT = ("PATH", "HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "PYTHONWARNINGS")
PLAIN = {"TERM": "xterm-256color", "LANG": "C.UTF-8"}

OpenConsole = Callable[..., PtyTerminal]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state folder of the console on the terminal."""
    return tmp_path / "state"


@pytest.fixture
def canned_console(state: Path) -> Iterator[OpenConsole]:
    """Opens the console on a canned incident; keywords are the environment, and the size.

    Named one of its own screens it begins there; else it has one made for these tests.
    """
    with ExitStack() as opened:

        def open_console(*words: str, columns: int = 80, rows: int = 24, **env: str) -> PtyTerminal:
            command: list[str | Path] = [*CANNED, state, *words]
            terminal = PtyTerminal(
                command, columns=columns, rows=rows, env=environment(**env), cwd=ROOT
            )
            opened.enter_context(terminal)
            terminal.wait_for("offline")
            terminal.wait_for("? help")
            return terminal

        state.mkdir()
        yield open_console


def environment(**env: str) -> dict[str, str]:
    """What an operator's shell gives a program, of 256 colours and UTF-8 unless *env* says."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | PLAIN | env
