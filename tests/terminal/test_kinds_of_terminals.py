"""Old, poor and far terminals get what they can show, and nothing else."""

from __future__ import annotations

import re

import pytest

from tests.terminal.conftest import OpenConsole
from tests.terminal.pty_terminal import PtyTerminal

_SGR = re.compile(rb"\x1b\[([\d;]*)m")
ATTRIBUTES = {0, 1, 2, 3, 4, 7}
SIXTEEN = {*range(30, 38), *range(40, 48), *range(90, 98), *range(100, 108), 39, 49}


def styles(terminal: PtyTerminal) -> set[int]:
    """Return every number the program has sent to change the look of text."""
    return {int(number or 0) for sent in _SGR.findall(terminal.raw) for number in sent.split(b";")}


def looked_around(terminal: PtyTerminal) -> PtyTerminal:
    terminal.press("down")
    terminal.wait_for(">row-1")
    terminal.press("ctrl+p")
    terminal.wait_for("Search")
    terminal.press("q", "u", "i", "t")
    terminal.wait_for("Quit")
    terminal.press("escape")
    terminal.wait_gone("uit")
    terminal.press("?")
    terminal.wait_for("Canned")
    terminal.press("escape")
    terminal.wait_gone("Canned")
    terminal.press("q")
    assert terminal.exit_code() == 0
    assert terminal.left_over == []
    return terminal


@pytest.mark.slow
@pytest.mark.parametrize("term", ["xterm", "screen"])
def test_a_terminal_of_16_colours_gets_its_own(canned_console: OpenConsole, term: str) -> None:
    terminal = looked_around(canned_console(TERM=term))
    assert styles(terminal) <= ATTRIBUTES | SIXTEEN
    assert styles(terminal) & SIXTEEN


@pytest.mark.slow
def test_a_terminal_of_256_colours_gets_no_others(canned_console: OpenConsole) -> None:
    terminal = looked_around(canned_console(TERM="tmux-256color"))
    assert b"38;5;" in terminal.raw
    assert b"38;2;" not in terminal.raw


@pytest.mark.slow
def test_true_colour_is_used_where_it_is_announced(canned_console: OpenConsole) -> None:
    assert b"38;2;" in canned_console(TERM="xterm-256color", COLORTERM="truecolor").raw


def test_with_no_color_there_is_none(canned_console: OpenConsole) -> None:
    terminal = looked_around(canned_console(NO_COLOR="1", COLORTERM="truecolor"))
    assert styles(terminal) <= ATTRIBUTES | {39, 49}
    assert 7 in styles(terminal), "the cursor is told apart"


@pytest.mark.parametrize("env", [{"LC_ALL": "POSIX"}, {"TERM": "linux"}], ids=str)
def test_a_terminal_without_other_glyphs_gets_ascii(
    canned_console: OpenConsole, env: dict[str, str]
) -> None:
    assert looked_around(canned_console(**env)).raw.isascii()


def test_the_mouse_is_used_on_a_terminal_that_is_here_and_stays_the_terminals_over_ssh(
    canned_console: OpenConsole,
) -> None:
    here, far = canned_console(), canned_console(SSH_TTY="/dev/pts/7", SSH_CONNECTION="10.1.2.3 4")
    assert here.modes["mouse"]
    assert not [name for name, on in far.modes.items() if on and "mouse" in name]
