"""What is done to a plan in threads, and which editor it is given to."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from textual.message import Message

from breakglass.screens.messages import ElectionAsked
from breakglass.screens.plan.files import editor_command
from breakglass.services.errors import UsageError
from tests.kit.incidents import diverged_incident
from tests.screens.offline.offline_console import Asked
from tests.screens.plan.plan_consoles import idle, made, plan_console, screen_of, told, view_of


def failing(_: object) -> Message:
    raise ZeroDivisionError("nobody expected this")


async def test_what_fails_without_being_expected_is_told_and_the_next_is_done() -> None:
    console = plan_console(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        before = view_of(console)
        screen_of(console).desk.ask(failing)
        await told(pilot, console, "This could not be done (ZeroDivisionError: nobody expected")
        assert view_of(console) is before
        await pilot.press("x")
        await idle(pilot, console)
        await told(pilot, console, "ledger-3: left out")


async def test_e_elects_the_plan_with_the_edits_that_were_asked_for_before() -> None:
    """The key comes while the edit before it is still being worked out."""
    console = plan_console(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        asked, opened = Asked(console, ElectionAsked), threading.Event()
        screen_of(console).desk.change(lambda draft: (draft, str(opened.wait(10))))
        await pilot.press("x", "e")
        assert asked.messages == [], "not with what is left out"
        opened.set()
        await told(pilot, console, "Cannot be elected: it elects nobody.")
        assert asked.messages == []


async def test_e_elects_nothing_where_an_edit_before_it_could_not_be_made() -> None:
    console = plan_console(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        asked, opened = Asked(console, ElectionAsked), threading.Event()

        def refused(_: object) -> Message:
            opened.wait(10)
            raise UsageError("not this one")

        screen_of(console).desk.ask(refused)
        await pilot.press("e")
        opened.set()
        await told(pilot, console, "not this one")
        await idle(pilot, console)
        assert asked.messages == []


def program(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"VISUAL": "vi -u NONE", "EDITOR": "ed"}, ["vi", "-u", "NONE"]),
        ({"EDITOR": "vi"}, ["vi"]),
        ({"VISUAL": "", "EDITOR": ""}, ["vi"]),
        ({}, ["vi"]),
    ],
    ids=["VISUAL", "EDITOR", "empty", "none named"],
)
def test_the_operators_editor_is_taken_and_vi_where_none_is_named(
    named: dict[str, str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "vi")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert editor_command(named) == words


def test_without_any_editor_it_is_said_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="No editor was found: set EDITOR"):
        editor_command({})
