"""Approvals, notes, reading again, and the way to the election."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from breakglass.console.app import WARNED_SECONDS
from breakglass.screens.messages import ElectionAsked
from breakglass.screens.plan.asking import ApproveDialog
from breakglass.screens.plan.dialogs import LeaderDialog, NotesDialog
from breakglass.screens.plan.rules_dialog import RulesDialog
from breakglass.services.errors import TimedOut
from breakglass.services.recovery.plan.check import CheckStatus
from tests.kit.clock import Clock
from tests.kit.incidents import LEDGER, diverged_incident, incident_of, lossless
from tests.screens.consoles import Asked, watch_of
from tests.screens.plan.plan_consoles import PlanPage, planned
from tests.screens.turns import text, until

CHECKED = "read again and checked"


def elected(leader: int) -> Any:
    """`LEDGER` with a leader, beside another partition that is offline."""
    state = replace(LEDGER.state, leader=leader, leader_epoch=10)
    return incident_of(lossless(1), online=[state])


def grown() -> Any:
    """b1 has been written to since."""
    b2, b3, b1 = LEDGER.replicas
    return incident_of(replace(LEDGER, replicas=(b2, b3, replace(b1, log_end=126))))


def statuses(page: PlanPage) -> list[CheckStatus]:
    return [row.checked.status for row in page.view.rows if row.checked]


async def approve(page: PlanPage, name: str, heard: str = "", says: str = "") -> None:
    await page.ask("a", ApproveDialog)
    await page.fill(name, "#name")
    await page.fill(heard, "#heard")
    await page.closes()
    await page.press(says=says)


async def test_two_persons_approve_the_digest_that_is_read_out_loud() -> None:
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
        await approve(page, "grace", spoken.upper().replace("-", " "), says="2 of 2")
        await page.shows("2 of 2: ada, grace")


async def test_an_edit_voids_approvals_says_so_and_undo_brings_them_back() -> None:
    async with planned() as page:
        await approve(page, "ada")
        await page.press("x", says="approvals void: ada")
        await page.shows("approved 0 of 2")
        await page.press("u", says="undone")
        await page.shows("approved 1 of 2: ada")


async def test_notes_are_written_read_and_removed_and_change_no_digest() -> None:
    async with planned() as page:
        spoken = page.view.spoken
        await page.choose("n", NotesDialog, "n", "h", "i", "escape", "escape", "escape")
        assert page.view.draft.history.last is None
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


async def test_reading_again_checks_each_row_until_it_is_chosen_otherwise() -> None:
    async with planned(diverged_incident()) as page:
        await page.press("ctrl+r", says=CHECKED)
        assert statuses(page) == [CheckStatus.UNCHANGED]
        await page.choose("l", LeaderDialog, "down", "enter", says="ledger-3: b1 -> b2")
        assert statuses(page) == []


async def test_what_is_online_by_now_is_shown_as_such() -> None:
    async with planned(diverged_incident(), elected(2)) as page:
        await page.press("ctrl+r", says=CHECKED)
        await page.shows(": 1 online", "online: b2 leads it")


async def test_what_changed_is_shown_and_the_evidence_of_now_is_taken_by_a_rule() -> None:
    async with planned(diverged_incident(), grown()) as page:
        await page.press("ctrl+r", says=CHECKED)
        await page.shows(": 1 changed", "was 125 and is 126")
        await page.press("f", "f", "f")
        await page.shows("(1 of 1)")
        await page.choose("b", RulesDialog, "end", "enter", says="evidence of now taken")
        assert statuses(page) == [CheckStatus.UNCHANGED]
        await page.press("u", says="undone: evidence")
        await page.shows("STALE: taken back")


async def test_a_cluster_that_changed_is_told_without_asking_and_the_same_evidence_is_not() -> None:
    for later, changed in ((grown(), True), (incident_of(LEDGER, lossless(1)), False)):
        async with planned(diverged_incident(), later) as page:
            await page.hides("has changed since")
            page.console._refresher.ask()
            await page.shows("has changed since" if changed else "2 offline")
            assert ("has changed since" in text(page.console)) == changed


async def test_a_reading_that_failed_checks_nothing_until_the_next_one() -> None:
    silence = TimedOut("no broker answers", "none")
    async with planned(diverged_incident(), silence, diverged_incident()) as page:
        await page.press("ctrl+r")
        await page.shows("no broker answers")
        assert CHECKED not in page.said
        await page.press("ctrl+r", says=CHECKED)


async def test_e_goes_on_with_this_very_plan_unless_it_elects_nobody() -> None:
    async with planned(diverged_incident()) as page:
        heard = Asked(page.console, ElectionAsked)
        await page.press("e")
        await until(page.pilot, lambda: heard.messages, "the election")
        (asked,) = heard.messages
        assert asked.plan is page.view.draft.plan
        assert asked.partitions == ()
        await page.press("x", says="left out")
        await page.press("e", says="elects nobody")
        assert len(heard.messages) == 1


async def test_leaving_with_edits_in_no_file_takes_a_second_key_soon_after() -> None:
    clock = Clock()
    async with planned(diverged_incident(), clock=clock) as page:
        await page.press("x", says="left out")
        await page.press("2", "q")
        await page.shows("q again to leave")
        clock.advance(WARNED_SECONDS + 1)
        await page.press("q")
        assert page.console.is_running, "it may be another edit by now"
        assert len(page.console._notifications) == 2
        await page.press("q")
        await until(page.pilot, lambda: watch_of(page.console).closed, "the end")


async def test_leaving_a_plan_without_edits_takes_one_key() -> None:
    async with planned() as page:
        await page.press("q")
        await until(page.pilot, lambda: watch_of(page.console).closed, "the end")
