"""The terminal the tests stand on."""

from __future__ import annotations

import sys

from tests.terminal.pty_terminal import PtyTerminal


def python(code: str, columns: int = 80, rows: int = 24) -> PtyTerminal:
    return PtyTerminal([sys.executable, "-c", code], columns=columns, rows=rows)


def test_what_a_program_writes_is_on_the_screen() -> None:
    with python("print('\\x1b[3;5Hhere \\x1b[?2026$p\\x1b[>1u注文')") as terminal:
        terminal.wait_for("here")
        assert terminal.lines[2] == "    here 注文"
        assert terminal.exit_code() == 0


def test_keys_arrive_and_the_exit_code_is_the_programs() -> None:
    with python("import sys; sys.exit(3 if input() == 'ok' else 4)") as terminal:
        terminal.press("o", "k", "enter")
        assert terminal.exit_code() == 3


def test_a_mode_left_on_is_told() -> None:
    with python("print('\\x1b[?1049h\\x1b[?25l\\x1b[?1000;1006h\\x1b[?1000l')") as terminal:
        terminal.exit_code()
        assert terminal.left_over == ["second screen on", "cursor off", "mouse sgr on"]


def test_a_line_discipline_left_changed_is_told() -> None:
    with python("import tty; tty.setraw(0); print('done')") as terminal:
        terminal.exit_code()
        assert terminal.left_over == ["line discipline"]


def test_a_size_is_changed_under_a_program() -> None:
    code = "import os, signal; signal.signal(28, lambda *_: print(*os.get_terminal_size()))"
    with python(f"{code}; print('up'); signal.pause()", columns=80, rows=24) as terminal:
        terminal.wait_for("up")
        terminal.resize(60, 20)
        terminal.wait_for("60 20")


def test_hanging_up_is_a_hangup_for_the_program() -> None:
    code = "import signal, sys; signal.signal(1, lambda *_: sys.exit(7)); print('up')"
    with python(f"{code}; signal.pause()") as terminal:
        terminal.wait_for("up")
        terminal.hang_up()
        assert terminal.exit_code() == 7
