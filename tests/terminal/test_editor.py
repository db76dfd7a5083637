"""The operator's own editor has the whole terminal, and the console has it again afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.terminal.conftest import OpenConsole
from tests.terminal.pty_terminal import PtyTerminal

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
