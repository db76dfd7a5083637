"""What is done to a plan in threads, and which editor it is given to."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from textual.message import Message

from breakglass.screens.messages import ElectionAsked
from breakglass.screens.plan.files import editor_command
from breakglass.services.errors import UsageError
from tests.kit.incidents import diverged_incident
from tests.kit.waiting import DEADLINE_SECONDS
from tests.screens.consoles import Asked
from tests.screens.plan.plan_consoles import planned

ROOT = Path(__file__).parents[3]


def test_the_screen_is_imported_without_the_plan() -> None:
    probe = "import breakglass.screens.plan, sys; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


async def test_what_fails_unexpectedly_is_shown_and_the_next_is_done() -> None:
    def failing(_: object) -> Message:
        raise ZeroDivisionError("odd")

    async with planned(diverged_incident()) as page:
        before = page.view
        page.screen.desk.ask(failing)
        await page.press(says="ZeroDivisionError: odd")
        assert page.view is before
        await page.press("x", says="ledger-3: left out")


async def test_e_elects_the_plan_with_the_edits_that_were_asked_for_before() -> None:
    """The key comes while the edit before it is still being worked out."""
    async with planned(diverged_incident()) as page:
        asked, opened = Asked(page.console, ElectionAsked), threading.Event()
        page.screen.desk.change(lambda draft: (draft, str(opened.wait(DEADLINE_SECONDS))))
        await page.press("x", "e")
        assert asked.messages == [], "not with what is left out"
        opened.set()
        await page.press(says="elects nobody")
        assert asked.messages == []


async def test_e_elects_nothing_where_an_edit_before_it_could_not_be_made() -> None:
    async with planned(diverged_incident()) as page:
        asked, opened = Asked(page.console, ElectionAsked), threading.Event()

        def refused(_: object) -> Message:
            opened.wait(DEADLINE_SECONDS)
            raise UsageError("not this one")

        page.screen.desk.ask(refused)
        await page.press("e")
        opened.set()
        await page.press(says="not this one")
        await page.idle()
        assert asked.messages == []


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
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError):
        editor_command(named)
    (tmp_path / "vi").write_text("#!/bin/sh\n")
    (tmp_path / "vi").chmod(0o755)
    assert editor_command(named) == words
