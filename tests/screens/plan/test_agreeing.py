"""Approvals, notes, reading again, and the way to the election."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from textual.message import Message
from textual.pilot import Pilot

from breakglass.console.app import BreakglassApp
from breakglass.screens.messages import ElectionAsked
from breakglass.screens.plan.asking import ApproveDialog
from breakglass.screens.plan.dialogs import LeaderDialog, NotesDialog
from breakglass.screens.plan.rules_dialog import RulesDialog
from breakglass.services.errors import TimedOut
from breakglass.services.recovery.plan.check import CheckStatus
from tests.kit.incidents import LEDGER, diverged_incident, every_verdict, incident_of, lossless
from tests.screens.plan.plan_consoles import (
    LEDGER_3,
    at,
    dialog,
    idle,
    leaders,
    made,
    no_dialog,
    plan_console,
    said,
    screen_of,
    shows,
    told,
    typed,
    view_of,
)
from tests.screens.turns import text, until


def elected(leader: int) -> Any:
    """`LEDGER` with a leader, beside another partition that is offline."""
    state = replace(LEDGER.state, leader=leader, leader_epoch=10)
    return incident_of(lossless(1), online=[state])


def grown() -> Any:
    """b1 has been written to since."""
    b2, b3, b1 = LEDGER.replicas
    return incident_of(replace(LEDGER, replicas=(b2, b3, replace(b1, log_end=126))))


async def approve(pilot: Pilot[Any], console: BreakglassApp, name: str, heard: str = "") -> None:
    await pilot.press("a")
    await dialog(pilot, console, ApproveDialog)
    await typed(pilot, console, name, "#name")
    await typed(pilot, console, heard, "#heard")
    await no_dialog(pilot, console)


async def test_the_digest_is_shown_large_in_its_spoken_form() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("a")
        await dialog(pilot, console, ApproveDialog)
        shown = text(console)
        await shows(pilot, console, "read the digest out loud")
        for group in view_of(console).spoken.split("-"):
            assert "  ".join(group.upper()) in shown
        await shows(pilot, console, "It elects 7 partitions, loses ~490")


async def test_two_persons_approve_and_each_counts_once() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        spoken = view_of(console).spoken
        await approve(pilot, console, "ada")
        await told(pilot, console, f"ada approves {spoken}: 1 of 2")
        await approve(pilot, console, "Ada")
        await told(pilot, console, "Ada approved it already: one person counts once.")
        await approve(pilot, console, "grace", spoken.upper().replace("-", " "))
        await told(pilot, console, f"grace approves {spoken}: 2 of 2")
        await shows(pilot, console, "approved 2 of 2: ada, grace")


async def test_another_digest_read_out_is_refused() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await approve(pilot, console, "grace", "lusab-babad-gutih")
        await told(pilot, console, "They read out lusab-babad-gutih but this plan is")
        await shows(pilot, console, "approved 0 of 2")


async def test_nobody_approves_without_a_name() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("a")
        await dialog(pilot, console, ApproveDialog)
        await pilot.press("escape", "enter", "enter")
        await shows(pilot, console, "Say who approves.")
        await pilot.press("escape")
        await no_dialog(pilot, console)
        await shows(pilot, console, "approved 0 of 2")


async def test_an_edit_voids_approvals_says_so_and_undo_brings_them_back() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await approve(pilot, console, "ada")
        await pilot.press("x")
        await told(pilot, console, "approvals void: ada")
        await shows(pilot, console, "approved 0 of 2  void: ada")
        await pilot.press("u")
        await told(pilot, console, "undone")
        await shows(pilot, console, "approved 1 of 2: ada")


async def test_notes_are_written_read_and_removed() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        spoken = view_of(console).spoken
        await pilot.press("n")
        await dialog(pilot, console, NotesDialog)
        for note in ("ask ada", "[red]\x1b[31mask grace"):
            await pilot.press("n")
            await typed(pilot, console, note)
        await shows(pilot, console, "1  ask ada")
        await shows(pilot, console, "[red]\\x1b[31mask grace")
        await pilot.press("home", "x", "escape")
        await no_dialog(pilot, console)
        assert view_of(console).notes == ("[red]\x1b[31mask grace",)
        await shows(pilot, console, "1 note")
        assert view_of(console).spoken == spoken
        await pilot.press("u")
        await told(pilot, console, "undone: notes changed")
        assert view_of(console).notes == ()


async def test_a_note_is_left_unwritten_by_escape() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("n")
        await dialog(pilot, console, NotesDialog)
        await pilot.press("n", "h", "i", "escape", "escape", "escape")
        await no_dialog(pilot, console)
        assert view_of(console).draft.history.last is None


async def test_reading_again_shows_what_is_unchanged() -> None:
    console = plan_console(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("ctrl+r")
        await told(pilot, console, "read again and checked")
        await shows(pilot, console, ": 1 unchanged")
        assert [row.checked.status for row in view_of(console).rows if row.checked] == [
            CheckStatus.UNCHANGED
        ]


async def test_what_is_online_by_now_is_shown_as_such() -> None:
    console = plan_console(diverged_incident(), elected(2))
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("ctrl+r")
        await told(pilot, console, "read again and checked")
        await shows(pilot, console, ": 1 online")
        await shows(pilot, console, "online: b2 leads it")


async def test_what_changed_is_said_and_the_evidence_of_now_is_taken_by_a_rule() -> None:
    console = plan_console(diverged_incident(), grown())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("ctrl+r")
        await told(pilot, console, "read again and checked")
        await shows(pilot, console, ": 1 changed")
        await shows(pilot, console, "changed: the log end of b1 was 125 and is 126")
        await pilot.press("f", "f", "f")
        await shows(pilot, console, "what cannot be elected as planned (1 of 1)")
        await pilot.press("b")
        await dialog(pilot, console, RulesDialog)
        await pilot.press("end", "enter")
        await no_dialog(pilot, console)
        await told(pilot, console, "evidence of now taken")
        await shows(pilot, console, ": 1 unchanged")
        await pilot.press("u")
        await told(pilot, console, "undone: evidence of now taken")
        await shows(pilot, console, "STALE: taken back to earlier evidence")


async def test_a_cluster_that_changed_since_is_told_without_asking() -> None:
    console = plan_console(diverged_incident(), grown())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await until(
            pilot, lambda: "has changed since" not in text(console), "has changed since" + " gone"
        )
        console._refresher.ask()
        await shows(pilot, console, "the cluster has changed since: ctrl+r checks it")


async def test_the_same_evidence_read_again_is_no_change() -> None:
    console = plan_console(diverged_incident(), incident_of(LEDGER, lossless(1)))
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        console._refresher.ask()
        await shows(pilot, console, "2 offline")
        assert "has changed since" not in text(console)


async def test_a_reading_that_failed_checks_nothing_until_the_next_one() -> None:
    silence = TimedOut("no broker answers: check the address, the tunnel and the brokers", "none")
    console = plan_console(diverged_incident(), silence, diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("ctrl+r")
        await shows(pilot, console, "no broker answers")
        assert said(console) == "Reading everything again."
        await pilot.press("ctrl+r")
        await told(pilot, console, "read again and checked")


async def test_a_choice_made_after_the_check_counts_as_unchecked() -> None:
    console = plan_console(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("ctrl+r")
        await told(pilot, console, "read again and checked")
        await pilot.press("l")
        await dialog(pilot, console, LeaderDialog)
        await pilot.press("down", "enter")
        await told(pilot, console, "ledger-3: b1 -> b2")
        (row,) = view_of(console).rows
        assert row.checked is None


async def test_e_goes_on_to_the_guarded_steps_with_this_very_plan() -> None:
    console = plan_console(diverged_incident())
    heard: list[Message] = []
    async with console.run_test(size=(80, 24), message_hook=heard.append) as pilot:
        await made(pilot, console)
        console._elect = lambda _: None  # type: ignore[method-assign,assignment]
        await pilot.press("e")
        await until(
            pilot, lambda: any(isinstance(message, ElectionAsked) for message in heard), "it"
        )
        asked = next(message for message in heard if isinstance(message, ElectionAsked))
        assert asked.plan is view_of(console).draft.plan
        assert asked.partitions == ()


async def test_a_plan_that_elects_nobody_is_not_begun() -> None:
    console = plan_console(diverged_incident())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("x")
        await told(pilot, console, "left out")
        await pilot.press("e")
        await told(pilot, console, "Cannot be elected: it elects nobody.")


async def test_what_is_edited_stays_under_the_cursor() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await at(pilot, console, LEDGER_3)
        await pilot.press("x")
        await idle(pilot, console)
        row = screen_of(console).current
        assert row is not None
        assert (row.partition, "ledger-3" in leaders(console)) == (LEDGER_3, False)
