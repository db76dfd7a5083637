"""However the console ends, the terminal is as it was and what was begun is written down.

What hangs hangs until the test ends: a console that waited for it would not leave.
"""

import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.terminal.canned_page import NOISE
from tests.terminal.conftest import CANNED, ROOT, OpenConsole, environment
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
    assert terminal.modes["mouse"], "of a terminal that is here"
    terminal.press("h")
    terminal.wait_for("hanging")
    terminal.press("q")
    assert terminal.exit_code() == 0
    assert terminal.left_over == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
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


def test_a_lost_terminal_ends_the_console_without_a_signal(
    canned_console: OpenConsole, state: Path
) -> None:
    terminal = canned_console(BREAKGLASS_TEST_DEAF="1")
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


CONSOLES_OWN = {"second screen", "bracketed paste", "focus", "resize reports", "kitty keys"}
"""Modes that the console switches on and an editor must not find."""
ASKING = r"""#!/bin/sh
for it; do file="$it"; done
printf "who leads ledger-3? "
read leader
sed -i "/ledger/s/designatedLeader\": [0-9]*/designatedLeader\": $leader/" "$file"
"""
"""Shows that it has the terminal, asks for a leader, and writes it down."""
STUBBORN = """#!/usr/bin/env python3
import os, signal, sys
def interrupted(*_):
    os.write(1, b'the editor was interrupted\\n')
    sys.stdin.readline()
    sys.exit(0)
signal.signal(signal.SIGINT, interrupted)
print('editing', flush=True)
signal.pause()
"""
OpenEditor = Callable[[str], PtyTerminal]


@pytest.fixture
def edited_with(canned_console: OpenConsole, state: Path, tmp_path: Path) -> OpenEditor:
    """Opens a plan, and its text in an editor of this source."""

    def open_editor(source: str) -> PtyTerminal:
        editor = tmp_path / "editor"
        editor.write_text(source)
        editor.chmod(0o755)
        terminal = canned_console("plan", EDITOR=str(editor), TMPDIR=str(state))
        terminal.wait_for("13 offline")
        terminal.press("p")
        terminal.wait_for("elects 7 partitions")
        terminal.press("v")
        return terminal

    return open_editor


def choose(terminal: PtyTerminal, leader: str, asked: int) -> None:
    terminal.until(lambda: terminal.raw.count(b"who leads ledger-3?") == asked, "the question")
    terminal.press(leader, "enter")


def test_an_editor_gets_the_terminal_as_a_shell_has_it_and_gives_it_back(
    edited_with: OpenEditor,
) -> None:
    terminal = edited_with(ASKING)
    terminal.wait_for("who leads ledger-3?")
    assert {name for name, on in terminal.modes.items() if on} & CONSOLES_OWN == set()

    choose(terminal, "3", asked=1)
    terminal.wait_for("b3 cannot lead ledger-3")
    terminal.press("enter")
    choose(terminal, "2", asked=2)

    terminal.wait_for("STALE: edited as a text")
    terminal.wait_gone("who leads")
    terminal.press("down")
    terminal.wait_for("> FORK")
    terminal.press("q")
    terminal.wait_for("again to leave")
    terminal.press("q")
    assert terminal.exit_code() == 0
    assert terminal.left_over == []


def test_ctrl_c_is_for_the_editor_and_does_not_end_the_console(edited_with: OpenEditor) -> None:
    terminal = edited_with(STUBBORN)
    terminal.wait_for("editing")
    terminal.press("ctrl+c")
    terminal.wait_for("the editor was interrupted")
    terminal.press("enter")
    terminal.wait_for("was not edited")
    terminal.press("down")
    terminal.wait_for("> FORK")


def test_the_size_is_followed_and_what_a_library_writes_is_kept_off_the_screen_and_told_of(
    canned_console: OpenConsole, state: Path
) -> None:
    terminal = canned_console()
    terminal.resize(60, 20)
    terminal.until(lambda: terminal.lines[19].endswith("? help"), "the keys on the last line")
    assert len(terminal.lines[19]) == 60
    terminal.resize(80, 24)
    terminal.until(lambda: len(terminal.lines[23]) == 80, "the keys on the last line")
    terminal.press("n")
    terminal.wait_for("noise made")
    wait_for_rows(terminal, cursor=0)
    assert NOISE.strip() not in terminal.raw
    terminal.press("q")
    assert terminal.exit_code() == 0
    (kept,) = (state / "output").iterdir()
    assert kept.read_bytes() == NOISE
    assert f"wrote {len(NOISE)} bytes" in terminal.text


def test_a_stalled_terminal_shows_in_the_end_what_is_so(
    canned_console: OpenConsole, state: Path
) -> None:
    terminal = canned_console()
    terminal.stall()
    terminal.send_slowly(MANY_FRAMES, FRAME_SECONDS)
    terminal.press("home", *["down"] * 5)
    said = state / "said"
    terminal.until(
        lambda: said.exists() and said.read_text() == "at row-5", "the last key to be taken"
    )
    terminal.flow()
    terminal.wait_for("at row-5")
    wait_for_rows(terminal, cursor=5)


def wait_for_rows(terminal: PtyTerminal, cursor: int) -> None:
    """Wait for all rows in their places; a bar at the right says how far they are scrolled."""
    rows = [f"{'>' if number == cursor else ' '}row-{number}" for number in range(17)]
    terminal.until(
        lambda: [line.partition("  ")[0] for line in terminal.lines[4:21]] == rows, "the rows"
    )
