"""Old, poor and far terminals get what they can show; keys arrive at once, or in pieces."""

import re
import sys
from pathlib import Path

import pytest

from tests.terminal.canned_page import PHRASE
from tests.terminal.conftest import OpenConsole, environment
from tests.terminal.pty_terminal import SPLIT_SECONDS, PtyTerminal

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


def test_a_far_terminal_keeps_its_mouse_and_gets_neither_colours_nor_glyphs_that_it_lacks(
    canned_console: OpenConsole,
) -> None:
    far = {"SSH_TTY": "/dev/pts/7", "SSH_CONNECTION": "10.1.2.3 4", "LC_ALL": "POSIX"}
    terminal = canned_console(NO_COLOR="1", COLORTERM="truecolor", **far)
    assert not [name for name, on in terminal.modes.items() if on and "mouse" in name]
    looked_around(terminal)
    assert terminal.raw.isascii()
    assert styles(terminal) <= ATTRIBUTES | {39, 49}
    assert 7 in styles(terminal), "the cursor is told apart"


HELP_CORNER = "╭"
ON_OFFSETS = ["> LOSS elect b1 __consumer_offs…-7", "> 1 stale 0 880"]
"""The cursors on the screen's second row: on the list, and on its replicas."""


def test_keys_in_one_packet_are_taken_by_what_they_open_and_an_arrow_in_pieces_changes_nothing(
    canned_console: OpenConsole,
) -> None:
    terminal = canned_console("offline")
    terminal.wait_for("the controller may elect")
    terminal.press("down")
    terminal.until(lambda: marked(terminal) == ON_OFFSETS, "the second row")
    # Up and down again, right and left: if a busy console joins them, nothing has moved.
    for letter in b"ABCD":
        terminal.send_slowly([b"\x1b", b"[", bytes([letter])], SPLIT_SECONDS)
    # F3: its letter alone opens a dialog.
    terminal.send_slowly([b"\x1b", b"O", b"R"], SPLIT_SECONDS)
    terminal.press("?")
    terminal.wait_for(HELP_CORNER)
    terminal.press("escape")
    terminal.wait_gone(HELP_CORNER)
    terminal.until(lambda: marked(terminal) == ON_OFFSETS, "the same row")
    assert "filter:" not in terminal.text
    assert "13 offline" in terminal.text

    terminal.send(b"/ledger\r")
    terminal.wait_for("filter: ledger")
    terminal.wait_gone("payments-1")
    terminal.wait_for("> LOSS  elect b1")
    terminal.send(b"1?")
    terminal.wait_for("Overview")
    terminal.send(b"\x1b")
    terminal.wait_for("Log dirs")


def test_r42_a_phrase_that_is_pasted_with_its_newline_is_refused_and_a_typed_one_is_not(
    canned_console: OpenConsole,
) -> None:
    """The terminal does not say that it pastes."""
    terminal = canned_console()
    terminal.press("t")
    terminal.wait_for("type the phrase")
    terminal.send(f"{PHRASE}\r".encode())
    terminal.wait_for("Pasting is refused here")
    terminal.wait_gone(f"> {PHRASE}")
    terminal.type_phrase(PHRASE)
    terminal.press("enter")
    terminal.wait_for("agreed")


def marked(terminal: PtyTerminal) -> list[str]:
    """The lines of cursors and of marks: their first five words, which say what they are of."""
    marked = [line for line in terminal.lines if line.startswith((">", " *"))]
    return [" ".join(line.split()[:5]) for line in marked]


def test_a_key_that_comes_as_a_screen_opens_is_no_filter_of_it(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "breakglass", "--bootstrap-server", "127.0.0.1:1")
    with PtyTerminal(command, env=environment(XDG_STATE_HOME=str(tmp_path))) as terminal:
        terminal.wait_for("? help")
        terminal.press("1", "5", "6", "q")
        assert terminal.exit_code() == 0
