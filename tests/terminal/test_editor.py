"""The operator's own editor has the whole terminal, and the console has it again afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.terminal.conftest import ROOT, environment
from tests.terminal.pty_terminal import PtyTerminal

PLAN = (sys.executable, "-m", "tests.terminal.canned_plan")
CONSOLES_OWN = {"second screen", "bracketed paste", "focus", "resize reports", "kitty keys"}
"""Modes that the console switches on and an editor must not find."""

OpenPlan = Callable[[Path], PtyTerminal]


@pytest.fixture
def plan_console(state: Path) -> Iterator[OpenPlan]:
    """Opens the Plan screen with a plan on it, where *editor* is the operator's."""
    with ExitStack() as opened:

        def open_plan(editor: Path) -> PtyTerminal:
            env = environment(EDITOR=str(editor), TMPDIR=str(state))
            terminal = PtyTerminal((*PLAN, state), env=env, cwd=ROOT)
            opened.enter_context(terminal)
            terminal.wait_for("13 offline")
            terminal.press("p")
            terminal.wait_for("elects 7 partitions")
            return terminal

        state.mkdir()
        yield open_plan


@pytest.fixture
def asking_editor(tmp_path: Path) -> Path:
    """An editor that shows that it has the terminal, asks for a leader, and writes it down."""
    program = tmp_path / "asking-editor"
    program.write_text(
        "#!/bin/sh\n"
        'for it; do file="$it"; done\n'
        'printf "who leads ledger-3? "\n'
        "read leader\n"
        'sed -i "/ledger/s/designatedLeader\\": [0-9]*/designatedLeader\\": $leader/" "$file"\n'
    )
    program.chmod(0o755)
    return program


def test_an_editor_gets_the_terminal_as_a_shell_has_it_and_gives_it_back(
    plan_console: OpenPlan, asking_editor: Path
) -> None:
    terminal = plan_console(asking_editor)
    terminal.press("v")
    terminal.wait_for("who leads ledger-3?")
    assert {name for name, on in terminal.modes.items() if on} & CONSOLES_OWN == set()

    terminal.type("2")
    terminal.press("enter")

    terminal.wait_for("edited as a text: ledger-3")
    terminal.wait_for("STALE: edited as a text")
    terminal.wait_gone("who leads")
    terminal.press("down")
    terminal.wait_for("> FORK")
    terminal.press("q")
    terminal.wait_for("again to leave all the same")
    terminal.press("q")
    assert terminal.exit_code() == 0
    assert terminal.left_over == []


def test_a_fault_is_shown_and_the_editor_opens_again(
    plan_console: OpenPlan, asking_editor: Path
) -> None:
    terminal = plan_console(asking_editor)
    terminal.press("v")
    terminal.wait_for("who leads ledger-3?")
    terminal.type("3")
    terminal.press("enter")
    terminal.wait_for("The text is not a valid plan: 1 fault")
    terminal.wait_for("b3 cannot lead ledger-3: b3 is fenced")

    terminal.press("enter")
    terminal.wait_for("who leads ledger-3?")
    terminal.type("2")
    terminal.press("enter")

    terminal.wait_for("edited as a text: ledger-3")


def test_ctrl_c_is_for_the_editor_and_does_not_end_the_console(
    plan_console: OpenPlan, tmp_path: Path
) -> None:
    program = tmp_path / "stubborn-editor"
    program.write_text(
        "#!/usr/bin/env python3\n"
        "import os, signal, sys\n"
        "def interrupted(*_):\n"
        "    os.write(1, b'the editor was interrupted\\n')\n"
        "    sys.stdin.readline()\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGINT, interrupted)\n"
        "print('editing', flush=True)\n"
        "signal.pause()\n"
    )
    program.chmod(0o755)
    terminal = plan_console(program)
    terminal.press("v")
    terminal.wait_for("editing")
    terminal.press("ctrl+c")
    terminal.wait_for("the editor was interrupted")
    terminal.press("enter")

    terminal.wait_for("The text was not edited: the plan is unchanged.")
    terminal.press("down")
    terminal.wait_for("> FORK")
