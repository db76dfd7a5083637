"""Keys as links deliver them: all at once, or in pieces."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.terminal.conftest import OpenConsole, environment
from tests.terminal.pace import SPLIT_SECONDS
from tests.terminal.pty_terminal import PtyTerminal

HELP_CORNER = "╭"


def test_a_filter_that_comes_in_one_packet_is_typed_into_its_field(
    canned_console: OpenConsole,
) -> None:
    terminal = canned_console("real")
    terminal.wait_for("payments-1")

    terminal.send(b"/ledger\r")

    terminal.wait_for("filter: ledger")
    terminal.wait_gone("payments-1")
    assert "> LOSS  elect b1" in terminal.text


def test_a_screen_that_is_asked_for_gets_the_keys_that_follow(canned_console: OpenConsole) -> None:
    terminal = canned_console("real")
    terminal.wait_for("payments-1")

    terminal.send(b"1?")

    terminal.wait_for("Overview")
    terminal.send(b"\x1b")
    terminal.wait_for("Log dirs")


def test_an_arrow_that_comes_in_pieces_changes_nothing(canned_console: OpenConsole) -> None:
    terminal = canned_console()
    terminal.press("down", "down")
    terminal.wait_for("at row-2")

    for letter in b"ABCD":
        terminal.send_slowly([b"\x1b", b"[", bytes([letter])], SPLIT_SECONDS)
    terminal.press("down")

    terminal.wait_for("at row-3")
    assert [line for line in terminal.lines if line.startswith(">")] == [">row-3"]
    assert terminal.lines[2] == " Row"
    assert terminal.process.poll() is None


def test_an_arrow_in_pieces_changes_nothing_on_the_real_screens(
    canned_console: OpenConsole,
) -> None:
    terminal = canned_console("real")
    terminal.wait_for("the controller may elect")

    for letter in b"ABCD":
        terminal.send_slowly([b"\x1b", b"[", bytes([letter])], SPLIT_SECONDS)
    terminal.press("?")
    terminal.wait_for("Offline partitions")
    terminal.press("escape")
    terminal.wait_gone(HELP_CORNER)
    terminal.wait_for("> 2       stale")

    marked = [line[:6].rstrip() for line in terminal.lines if line.startswith((">", " *"))]
    assert marked == ["> BOMB", "> 2"]
    assert "filter:" not in terminal.text
    assert "13 offline" in terminal.text


@pytest.mark.parametrize("screen", ["5", "6"])
def test_a_key_that_comes_as_a_screen_opens_is_no_filter_of_it(tmp_path: Path, screen: str) -> None:
    command = (sys.executable, "-m", "breakglass", "--bootstrap-server", "127.0.0.1:1")
    with PtyTerminal(command, env=environment(XDG_STATE_HOME=str(tmp_path))) as terminal:
        terminal.wait_for("? help")
        terminal.press("1", screen, "q")
        assert terminal.exit_code() == 0
