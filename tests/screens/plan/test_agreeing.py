"""Approvals, notes, reading again, and the way to the election."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import NoReturn

from breakglass.console.app import WARNED_SECONDS
from breakglass.screens.messages import ElectionAsked
from breakglass.screens.plan.asking import ApproveDialog, LeaderDialog, NotesDialog, RulesDialog
from breakglass.services.errors import TimedOut, UsageError
from breakglass.services.recovery.plan.check import CheckStatus
from tests.kit.clock import Clock
from tests.kit.incidents import LEDGER, diverged_incident, incident_of, lossless
from tests.kit.waiting import DEADLINE_SECONDS
from tests.screens.consoles import Asked, watch_of
from tests.screens.plan.plan_consoles import PlanPage, planned
from tests.screens.turns import text, until

CHECKED = "read again and checked"
B2, B3, B1 = LEDGER.replicas
GROWN = replace(LEDGER, replicas=(B2, B3, replace(B1, log_end=126)))
LED_BY_B2 = replace(LEDGER.state, leader=2, leader_epoch=10)


def statuses(page: PlanPage) -> list[CheckStatus]:
    return [row.checked.status for row in page.view.rows if row.checked]


async def approve(page: PlanPage, name: str, heard: str = "", says: str = "") -> None:
    await page.ask("a", ApproveDialog)
    await page.fill(name, "#name")
    await page.fill(heard, "#heard")
    await page.closes()
    await page.press(says=says)


async def test_two_persons_approve_the_digest_an_edit_voids_that_and_a_note_does_not() -> None:
    async with planned() as page:
        spoken = page.view.spoken
        await page.ask("a", ApproveDialog)
        shown = text(page.console)
        for group in spoken.split("-"):
            assert "  ".join(group.upper()) in shown
        await page.shows("elects 7 partitions")
        await page.press("escape", "enter", "enter")
        await page.shows("Say who approves.")
        await page.press("escape")
        await page.closes()
        await approve(page, "grace", "lusab-babad-gutih", says="lusab-babad-gutih")
        await page.shows("approved 0 of 2")
        await approve(page, "ada", says=f"ada approves {spoken}")
        await approve(page, "Ada", says="one person counts once")
        await page.press("x", says="approvals void: ada")
        await page.shows("approved 0 of 2")
        await page.press("u", says="undone")
        await page.shows("approved 1 of 2: ada")
        await approve(page, "grace", spoken.upper().replace("-", " "), says="2 of 2")
        await page.shows("2 of 2: ada, grace")

        last = page.view.draft.history.last
        await page.choose("n", NotesDialog, "n", "h", "i", "escape", "escape", "escape")
        assert page.view.draft.history.last is last
        await page.ask("n", NotesDialog)
        for note in ("ask ada", "[red]\x1b[31mask grace"):
            await page.press("n")
            await page.fill(note)
        await page.shows("1  ask ada", "[red]\\x1b[31mask grace")
        await page.press("home", "x", "escape")
        await page.closes()
        assert page.view.notes == ("[red]\x1b[31mask grace",)
        assert page.view.spoken == spoken
        await page.press("u", says="undone: notes changed")
        assert list(page.view.notes) == []


async def test_a_plan_is_read_again_elected_as_it_stands_and_not_left_with_edits_unasked() -> None:
    silence, clock = TimedOut("no broker answers", "none"), Clock()
    readings = diverged_incident(), silence, diverged_incident()
    async with planned(*readings, clock=clock) as page:
        clock.advance(1)
        await page.press("ctrl+r")
        await page.shows("no broker answers")
        assert CHECKED not in page.said
        await page.press("ctrl+r", says=CHECKED)
        assert statuses(page) == [CheckStatus.UNCHANGED]
        await page.choose("l", LeaderDialog, "down", "enter", says="ledger-3: b1 -> b2")
        assert statuses(page) == []

        heard = Asked(page.console, ElectionAsked)
        await page.press("e")
        await until(page.pilot, lambda: heard.messages, "the election")
        (asked,) = heard.messages
        assert asked.plan is page.view.draft.plan
        assert asked.partitions == ()
        await page.press("x", says="left out")
        await page.press("e", says="elects nobody")
        assert len(heard.messages) == 1

        await page.press("2", "q")
        await page.shows("q again to leave")
        clock.advance(WARNED_SECONDS + 1)
        await page.press("q")
        assert page.console.is_running, "it may be another edit by now"
        assert len(page.console._notifications) == 2
        await page.press("q")
        await until(page.pilot, lambda: watch_of(page.console).closed, "the end")


async def test_what_changed_in_the_cluster_is_shown_beside_the_plan_and_taken_by_a_rule() -> None:
    another = incident_of(LEDGER, lossless(1))
    led = incident_of(lossless(1), online=[LED_BY_B2])
    grown = incident_of(GROWN)
    async with planned(diverged_incident(), another, grown, grown, led) as page:
        page.console._refresher.ask()
        await page.shows("2 offline")
        assert "has changed since" not in text(page.console), "its evidence is the same"
        page.console._refresher.ask()
        await page.shows("has changed since")
        await page.press("ctrl+r", says=CHECKED)
        await page.shows(": 1 changed", "was 125 and is 126")
        await page.press("f", "f", "f")
        await page.shows("(1 of 1)")
        await page.choose("b", RulesDialog, "end", "enter", says="evidence of now taken")
        assert statuses(page) == [CheckStatus.UNCHANGED]
        await page.press("u", says="undone: evidence")
        await page.shows("STALE: taken back")
        await page.press("escape", "ctrl+r")
        await page.shows(": 1 online", "online: b2 leads it")


async def test_e_waits_for_the_edits_before_it_and_elects_nothing_where_one_of_them_fails() -> None:
    """The key comes while the edit before it is still being worked out."""
    edited, refused = threading.Event(), threading.Event()

    def fail(_: object) -> NoReturn:
        raise ZeroDivisionError("odd")

    def refuse(_: object) -> NoReturn:
        refused.wait(DEADLINE_SECONDS)
        raise UsageError("not this one")

    async with planned(diverged_incident()) as page:
        before, asked = page.view, Asked(page.console, ElectionAsked)
        page.screen.desk.ask(fail)
        await page.press(says="ZeroDivisionError: odd")
        assert page.view is before
        page.screen.desk.ask(refuse)
        await page.press("e")
        refused.set()
        await page.press(says="not this one")
        await page.idle()
        page.screen.desk.change(lambda draft: (draft, str(edited.wait(DEADLINE_SECONDS))))
        await page.press("x", "e")
        assert asked.messages == [], "not with what is left out"
        edited.set()
        await page.press(says="elects nobody")
        assert asked.messages == []
