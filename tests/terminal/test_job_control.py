"""Ctrl+Z is the shell's: the job stops, the terminal is the shell's meanwhile, fg draws again."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.terminal.conftest import CANNED, ROOT, OpenConsole, environment
from tests.terminal.pty_terminal import PtyTerminal

PROMPT = "shell$ "
SHELLS_OWN = {"line wrap", "cursor", "bracketed paste"}
"""The modes a prompt may have switched on itself."""

SECOND_SCREEN = b"\x1b[?1049h"


@pytest.fixture
def shell() -> Iterator[PtyTerminal]:
    command = ["bash", "--norc", "--noprofile", "-i"]
    with PtyTerminal(command, env=environment(PS1=PROMPT), cwd=ROOT) as terminal:
        terminal.wait_for(PROMPT.strip())
        yield terminal


def enter(terminal: PtyTerminal, line: str) -> None:
    terminal.type(line)
    terminal.press("enter")


def test_ctrl_z_stops_the_job_and_fg_draws_it_again(shell: PtyTerminal, state: Path) -> None:
    state.mkdir()
    enter(shell, shlex.join([*CANNED, str(state)]))
    shell.wait_for("row-1")

    shell.press("ctrl+z")
    shell.wait_for("Stopped")
    assert {name for name, on in shell.modes.items() if on} <= SHELLS_OWN
    enter(shell, "clear; echo from-the-$((1))-shell")
    shell.wait_for("from-the-1-shell")

    enter(shell, "fg")
    shell.wait_for("row-1")
    shell.press("down")
    shell.wait_for(">row-1")
    shell.wait_gone("from-the-1-shell")
    shell.press("q")
    shell.wait_for(PROMPT.strip())
    enter(shell, "clear; echo left with $?")
    shell.wait_for("left with 0")


def test_ctrl_z_goes_on_without_a_shell_and_does_nothing_while_something_is_changed(
    canned_console: OpenConsole, state: Path
) -> None:
    terminal = canned_console()
    terminal.press("ctrl+z")
    terminal.until(lambda: terminal.raw.count(SECOND_SCREEN) == 2, "the screen to come back")
    terminal.press("down")
    terminal.wait_for(">row-1")
    terminal.press("e")
    terminal.wait_for("changing")
    terminal.press("ctrl+z")
    terminal.signal(signal.SIGTSTP)
    terminal.press("down")
    terminal.wait_for(">row-2")
    assert psutil.Process(terminal.process.pid).status() != psutil.STATUS_STOPPED
    (state / "answer").touch()


def test_a_stop_or_a_go_on_that_was_not_announced_leaves_one_reader_of_keys(
    canned_console: OpenConsole,
) -> None:
    terminal = canned_console()
    process = psutil.Process(terminal.process.pid)
    for number in range(2, 7):
        terminal.press("down")
        # What nobody has read yet is dropped where a screen is left.
        terminal.wait_for(f"at row-{number - 1}")
        if number == 6:
            terminal.signal(signal.SIGSTOP)
            terminal.until(lambda: process.status() == psutil.STATUS_STOPPED, "the stop")
        terminal.signal(signal.SIGCONT)
        terminal.until(
            lambda number=number: terminal.raw.count(SECOND_SCREEN) >= number,  # type: ignore[misc]
            f"the screen to come back, number {number}",
        )
    terminal.press(*["down"] * 5)

    terminal.wait_for("at row-10")
    terminal.press("q")
    assert terminal.exit_code() == 0
    assert terminal.left_over == []
