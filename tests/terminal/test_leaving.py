"""However the console ends, the terminal is as it was and what was begun is written down.

What hangs hangs until the test ends: a console that waited for it would not leave.
"""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.terminal.conftest import OpenConsole
from tests.terminal.pty_terminal import FRAME_SECONDS, MANY_FRAMES, PtyTerminal

INTERRUPTED = 130


def begin_change(terminal: PtyTerminal) -> None:
    terminal.press("e")
    terminal.wait_for("changing")


class Rest:
    """Whether the kernel has counted no processor time of a program since the last look."""

    def __init__(self, program: int) -> None:
        self._program, self._used = psutil.Process(program), -1.0

    def __call__(self) -> bool:
        before, self._used = self._used, sum(self._program.cpu_times()[:2])
        return before == self._used


def test_quitting_gives_the_terminal_back_and_waits_for_no_read_that_nothing_ends(
    canned_console: OpenConsole,
) -> None:
    terminal = canned_console()
    assert terminal.modes["second screen"]
    terminal.press("h")
    terminal.wait_for("hanging")
    terminal.press("q")
    assert terminal.exit_code() == 0
    assert terminal.left_over == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_gives_the_terminal_back(
    canned_console: OpenConsole, number: signal.Signals
) -> None:
    terminal = canned_console()
    terminal.signal(number)
    assert terminal.exit_code() == INTERRUPTED
    assert terminal.left_over == []
    assert b"Traceback" not in terminal.raw


def test_a_signal_lets_the_request_under_way_be_finished_and_written_down(
    canned_console: OpenConsole, state: Path
) -> None:
    terminal = canned_console()
    begin_change(terminal)
    terminal.signal(signal.SIGTERM)
    terminal.wait_for("Finishing the request")
    assert terminal.process.poll() is None
    (state / "answer").touch()
    assert terminal.exit_code() == INTERRUPTED
    assert (state / "journal").read_text() == "elected\n"
    assert terminal.left_over == []


@pytest.mark.parametrize("env", [{}, {"BREAKGLASS_TEST_DEAF": "1"}], ids=["SIGHUP", "no signal"])
def test_a_lost_terminal_ends_the_console(
    canned_console: OpenConsole, state: Path, env: dict[str, str]
) -> None:
    terminal = canned_console(**env)
    terminal.hang_up()
    assert terminal.exit_code() == INTERRUPTED
    assert list((state / "output").iterdir()) == []


def test_a_lost_terminal_lets_the_request_under_way_be_written_down_without_spinning(
    canned_console: OpenConsole, state: Path
) -> None:
    terminal = canned_console()
    begin_change(terminal)
    terminal.hang_up()
    wait_until(Rest(terminal.process.pid), "a program that rests", every=0.2)
    assert terminal.process.poll() is None
    (state / "answer").touch()
    assert terminal.exit_code() == INTERRUPTED
    assert (state / "journal").read_text() == "elected\n"


def test_a_terminal_that_takes_nothing_does_not_keep_the_console(
    canned_console: OpenConsole,
) -> None:
    terminal = canned_console()
    terminal.stall()
    terminal.send_slowly(MANY_FRAMES, FRAME_SECONDS)
    terminal.signal(signal.SIGTERM)
    assert terminal.process.wait(DEADLINE_SECONDS) == INTERRUPTED


def test_a_failure_that_is_not_expected_is_one_sentence_and_a_file(
    canned_console: OpenConsole, user_folders: Path
) -> None:
    terminal = canned_console()
    terminal.press("b")
    assert terminal.exit_code() == 1
    assert terminal.left_over == []
    assert "RuntimeError" in terminal.text
    assert b"Traceback" not in terminal.raw
    (report,) = (user_folders / "state" / "breakglass" / "failures").iterdir()
    assert "nobody expected this" in report.read_text()
