"""However the console ends, the terminal is as it was and what was begun is written down."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.terminal.conftest import OpenConsole
from tests.terminal.pace import FRAME_SECONDS, MANY_FRAMES, PROMPT_SECONDS, promptly
from tests.terminal.pty_terminal import PtyTerminal

INTERRUPTED = 130


def begin_change(terminal: PtyTerminal) -> None:
    terminal.press("e")
    terminal.wait_for("changing")


def answer(state: Path) -> None:
    """Let the request under way be answered."""
    (state / "answer").touch()


def test_quitting_gives_the_terminal_back(canned_console: OpenConsole) -> None:
    terminal = canned_console()
    assert terminal.modes["second screen"]

    terminal.press("q")

    assert terminal.exit_code() == 0
    assert terminal.left_over == []


def test_quitting_does_not_wait_for_a_read_that_nothing_ends(canned_console: OpenConsole) -> None:
    terminal = canned_console()
    terminal.press("h")
    terminal.wait_for("hanging")

    terminal.press("q")

    assert terminal.exit_code(promptly()) == 0
    assert terminal.left_over == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_gives_the_terminal_back(
    canned_console: OpenConsole, number: signal.Signals
) -> None:
    terminal = canned_console()

    terminal.signal(number)

    assert terminal.exit_code(promptly()) == INTERRUPTED
    assert terminal.left_over == []
    assert b"Traceback" not in terminal.raw


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_lets_the_request_under_way_be_finished_and_written_down(
    canned_console: OpenConsole, state: Path, number: signal.Signals
) -> None:
    terminal = canned_console()
    begin_change(terminal)

    terminal.signal(number)
    terminal.wait_for("Finishing the request that was sent")
    assert terminal.process.poll() is None
    answer(state)

    assert terminal.exit_code() == INTERRUPTED
    assert (state / "journal").read_text() == "elected\n"
    assert terminal.left_over == []


def test_a_lost_terminal_ends_the_console(canned_console: OpenConsole, state: Path) -> None:
    terminal = canned_console()

    terminal.hang_up()

    assert terminal.exit_code(promptly()) == INTERRUPTED
    assert list((state / "output").iterdir()) == []


def test_a_lost_terminal_lets_the_request_under_way_be_written_down_without_spinning(
    canned_console: OpenConsole, state: Path
) -> None:
    terminal = canned_console()
    begin_change(terminal)
    program = psutil.Process(terminal.process.pid)

    terminal.hang_up()
    before = sum(program.cpu_times()[:2])
    with pytest.raises(subprocess.TimeoutExpired):
        terminal.process.wait(PROMPT_SECONDS)
    assert sum(program.cpu_times()[:2]) - before < PROMPT_SECONDS / 2
    answer(state)

    assert terminal.exit_code() == INTERRUPTED
    assert (state / "journal").read_text() == "elected\n"


def test_a_lost_terminal_is_noticed_without_a_signal(canned_console: OpenConsole) -> None:
    terminal = canned_console(BREAKGLASS_TEST_DEAF="1")

    terminal.hang_up()

    assert terminal.exit_code(promptly()) == INTERRUPTED


def test_a_terminal_that_takes_nothing_does_not_keep_the_console(
    canned_console: OpenConsole,
) -> None:
    terminal = canned_console()
    terminal.stall()
    terminal.send_slowly(MANY_FRAMES, FRAME_SECONDS)

    terminal.signal(signal.SIGTERM)

    assert terminal.process.wait(2 * promptly()) == INTERRUPTED


def test_a_failure_nobody_expected_is_one_sentence_and_a_file(
    canned_console: OpenConsole, user_folders: Path
) -> None:
    terminal = canned_console()

    terminal.press("b")

    assert terminal.exit_code() == 1
    assert terminal.left_over == []
    assert "Breakglass failed unexpectedly (RuntimeError: nobody expected this)" in terminal.text
    assert b"Traceback" not in terminal.raw
    (report,) = (user_folders / "state" / "breakglass" / "failures").iterdir()
    assert "nobody expected this" in report.read_text()
