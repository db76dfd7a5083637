"""A plan is made, edited, undone and redone by keys, and says at each step what that loses."""

from __future__ import annotations

from typing import Any

import pytest
from textual.message import Message
from textual.pilot import Pilot

from breakglass.console.app import BreakglassApp
from breakglass.screens.messages import DiffAsked, PlanAsked
from breakglass.screens.plan import PlanScreen, acts
from breakglass.screens.plan.dialogs import LeaderDialog
from breakglass.screens.plan.rules_dialog import BrokersDialog, RulesDialog
from breakglass.screens.terminal import Terminal
from breakglass.screens.widgets.dialog import Prompt, Question
from breakglass.services.recovery.plan.document import ChosenBy
from breakglass.themes.roles import Role, role_style
from tests.kit.incidents import (
    diverged_incident,
    every_verdict,
    hostile_names,
    incident_of,
    many_offline,
    nothing_offline,
    unread,
)
from tests.screens.consoles import console_on
from tests.screens.plan.plan_consoles import (
    FORK,
    LEDGER_3,
    OFFSETS,
    at,
    dialog,
    idle,
    known,
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
from tests.screens.turns import lines, text, until
from tests.unit.recovery.replicas import log, offline, silent


async def test_without_a_plan_it_says_how_to_get_one_and_every_edit_is_off() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await known(pilot, console)
        await shows(pilot, console, "No plan yet: p makes one")
        for key in ("l", "x", "X", "b", "u", "ctrl+y", "a", "s", "e", "v", "n", "f", "d", "space"):
            await pilot.press(key)
        await pilot.press("enter", "slash")
        assert isinstance(console.screen, PlanScreen)
        assert screen_of(console).view is None


async def test_p_makes_a_plan_of_all_that_is_offline() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await shows(pilot, console, "elects 7 partitions, loses ~490, b3 unread (at least 100);")
        await shows(pilot, console, view_of(console).spoken)
        assert len(view_of(console).rows) == 13
        await shows(pilot, console, "LOSS     ledger-3              b1      b1       50")


async def test_a_plan_of_the_marked_rows_is_made_when_another_screen_asks() -> None:
    console = console_on(every_verdict(), start="plan")
    async with console.run_test(size=(80, 24)) as pilot:
        await known(pilot, console)
        console.post_message(PlanAsked([LEDGER_3, FORK]))
        await until(pilot, lambda: screen_of(console).view is not None, "a plan")
        assert [str(row.partition) for row in view_of(console).rows] == ["audit-5", "ledger-3"]


async def test_where_nothing_is_offline_there_is_nothing_to_plan() -> None:
    console = plan_console(nothing_offline())
    async with console.run_test(size=(80, 24)) as pilot:
        await known(pilot, console)
        await pilot.press("p")
        await told(pilot, console, "No partition is offline")


async def test_partitions_that_were_not_read_yet_are_said_not_to_be_in_it() -> None:
    console = plan_console(unread(3))
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        assert said(console) == "3 partitions not read yet: not in the plan"
        await shows(pilot, console, "elects 0 partitions")


def test_a_plan_made_here_has_every_partition_however_many_there_are() -> None:
    draft, said_of_it = acts.make(many_offline(10_001), ())
    assert (len(draft.plan.records), said_of_it) == (10_001, "")


@pytest.mark.parametrize("key", ["l", "enter"])
async def test_a_leader_is_chosen_from_the_candidates_and_the_loss_before_and_after_is_said(
    key: str,
) -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        before = view_of(console).spoken
        await at(pilot, console, LEDGER_3)
        await pilot.press(key)
        await dialog(pilot, console, LeaderDialog)
        await shows(pilot, console, "b1 elected, best")
        await shows(pilot, console, "no: b3 is fenced")
        await shows(pilot, console, "Electing b1 loses 50.")
        await pilot.press("down")
        await shows(pilot, console, "Electing b2 loses 25.")
        await pilot.press("enter")
        await no_dialog(pilot, console)
        await told(pilot, console, "ledger-3: b1 -> b2; loses ~490 -> ~465")
        assert leaders(console)["ledger-3"] == 2
        assert view_of(console).draft.plan.records[LEDGER_3].chosen_by is ChosenBy.HAND
        assert view_of(console).spoken != before
        await shows(pilot, console, "> LOSS     ledger-3              ≠b2     b1       25")


async def test_a_replica_that_cannot_lead_is_refused_with_the_reason() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await at(pilot, console, LEDGER_3)
        await pilot.press("l")
        await dialog(pilot, console, LeaderDialog)
        await pilot.press("down", "down", "enter")
        await shows(pilot, console, "b3 cannot be elected: b3 is fenced")
        await pilot.press("escape")
        await no_dialog(pilot, console)
        assert leaders(console)["ledger-3"] == 1


async def test_a_choice_that_wipes_the_others_is_called_that_in_the_colour_of_losses() -> None:
    emptied = offline(log(1, (0, 125)), log(2), silent(3), topic="ledger", number=3)
    console = plan_console(incident_of(emptied))
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("l")
        await dialog(pilot, console, LeaderDialog)
        row = next(line for line in lines(console) if " b2 " in line)
        assert "DESTROYS 125" in row
        await pilot.press("down")
        await shows(pilot, console, "b2 is EMPTY: electing it DESTROYS 125.")
        drawn = [
            segment.style
            for strip in console.screen._compositor.render_strips()
            for segment in strip
            if "DESTROYS" in segment.text
        ]
        lost = role_style(console, Role.LOST).color
        assert len(drawn) == 2
        assert all(style is not None and style.color == lost for style in drawn)


async def test_choosing_who_is_elected_already_changes_nothing() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await at(pilot, console, LEDGER_3)
        await pilot.press("l")
        await dialog(pilot, console, LeaderDialog)
        await pilot.press("enter")
        await told(pilot, console, "Nothing to change.")
        assert view_of(console).draft.history.last is None


async def test_what_nobody_recommends_is_decided_by_hand() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await at(pilot, console, FORK)
        await pilot.press("x")
        await told(pilot, console, "Nobody is recommended to lead: choose a leader (l).")
        await pilot.press("l")
        await dialog(pilot, console, LeaderDialog)
        await shows(pilot, console, "Needs its own consent: committed records")
        await pilot.press("enter")
        await no_dialog(pilot, console)
        await told(pilot, console, "audit-5: left out -> b2")


async def test_x_leaves_out_and_takes_in_again_and_the_digest_is_the_same_then() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        before = view_of(console).spoken
        await pilot.press("x")
        await told(pilot, console, "__consumer_offsets-7: left out; elects 7 -> 6")
        await shows(pilot, console, "≠out")
        assert "left out by hand" in lines(console)[-4]
        await pilot.press("x")
        await told(pilot, console, "__consumer_offsets-7: taken in; elects 6 -> 7")
        assert view_of(console).spoken == before


async def test_a_reason_for_leaving_out_is_kept() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await at(pilot, console, LEDGER_3)
        await pilot.press("X")
        await dialog(pilot, console, Prompt)
        await typed(pilot, console, "ask [b]ada")
        await no_dialog(pilot, console)
        assert view_of(console).draft.plan.records[LEDGER_3].left_out == "ask [b]ada"
        await shows(pilot, console, "left out: ask [b]ada")


async def test_keys_pressed_faster_than_they_are_done_are_all_done_in_turn() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await at(pilot, console, LEDGER_3)
        await pilot.press(*["x"] * 7)
        await idle(pilot, console)
        assert len(view_of(console).draft.history.edits) == 7
        assert "ledger-3" not in leaders(console)


async def test_undo_and_redo_lead_back_and_forth_and_are_off_at_the_ends() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        made_first = view_of(console).spoken
        assert screen_of(console).check_action("undo", ()) is None
        await pilot.press("x")
        await told(pilot, console, "left out")
        edited = view_of(console).spoken
        await pilot.press("u")
        await told(pilot, console, "undone: __consumer_offsets-7: left out; elects 6 -> 7")
        assert view_of(console).spoken == made_first
        assert screen_of(console).check_action("undo", ()) is None
        await pilot.press("ctrl+y")
        await told(pilot, console, "again: __consumer_offsets-7: left out; elects 7 -> 6")
        assert view_of(console).spoken == edited
        assert screen_of(console).check_action("redo", ()) is None


async def test_marked_rows_are_left_out_together() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await at(pilot, console, LEDGER_3)
        await pilot.press("space", "space", "space")
        await shows(pilot, console, "3 marked: x and b are for them")
        await pilot.press("x")
        await told(pilot, console, "3 partitions: left out; elects 7 -> 4")
        await pilot.press("x")
        await told(pilot, console, "3 partitions: taken in; elects 4 -> 7")
        await pilot.press("escape")
        await until(pilot, lambda: "marked" not in text(console), "no marks")


async def test_least_loss_is_a_rule_for_all() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("b")
        await dialog(pilot, console, RulesDialog)
        await shows(pilot, console, "A rule for all 13 partitions")
        await pilot.press("enter")
        await no_dialog(pilot, console)
        await told(pilot, console, "least loss: 2 partitions; loses ~490 -> ~425")
        assert (leaders(console)["ledger-3"], leaders(console)[str(OFFSETS)]) == (2, 2)


async def rule(pilot: Pilot[Any], console: BreakglassApp, downs: int) -> None:
    """Choose the rule so many rows down the list."""
    await pilot.press("b")
    await dialog(pilot, console, RulesDialog)
    await pilot.press(*["down"] * downs, "enter")


async def test_brokers_are_never_elected_and_several_can_be_named() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await rule(pilot, console, 3)
        await dialog(pilot, console, BrokersDialog)
        await shows(pilot, console, "> b1      b               6")
        await pilot.press("space", "space", "enter")
        await no_dialog(pilot, console)
        await told(pilot, console, "never b1, b2: 7 partitions; elects 7 -> 0")
        assert leaders(console) == {}
        await pilot.press("u")
        await told(pilot, console, "undone: never")


async def test_a_rule_for_the_marked_rows_leaves_the_others_alone() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await at(pilot, console, LEDGER_3)
        await pilot.press("space")
        await rule(pilot, console, 3)
        await dialog(pilot, console, BrokersDialog)
        await pilot.press("enter")
        await told(pilot, console, "never b1: ledger-3; loses ~490 -> ~465")
        assert leaders(console)["orders-0"] == 1


async def test_a_rack_is_preferred_where_that_costs_nothing() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await rule(pilot, console, 2)
        await dialog(pilot, console, BrokersDialog)
        await shows(pilot, console, "b2, b4")
        await pilot.press("enter")
        await told(pilot, console, "Nothing to change.")


async def test_what_waits_is_left_out_by_a_rule_and_the_recommendation_brings_it_back() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        before = view_of(console).spoken
        await rule(pilot, console, 4)
        await told(pilot, console, "without waiting: 4 partitions; elects 7 -> 3")
        await rule(pilot, console, 5)
        await told(pilot, console, "as recommended: 4 partitions; elects 3 -> 7")
        assert view_of(console).spoken == before


async def test_a_rule_is_left_by_escape_at_either_step() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("b")
        await dialog(pilot, console, RulesDialog)
        await pilot.press("escape")
        await no_dialog(pilot, console)
        await rule(pilot, console, 3)
        await dialog(pilot, console, BrokersDialog)
        await pilot.press("escape")
        await no_dialog(pilot, console)
        assert view_of(console).draft.history.last is None


async def test_departures_are_shown_alone_and_all_again() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await at(pilot, console, LEDGER_3)
        await pilot.press("x", "f")
        await idle(pilot, console)
        await shows(pilot, console, "departs from the recommendation (1 of 13)")
        await shows(pilot, console, "1 ≠ best")
        await pilot.press("f")
        await shows(pilot, console, "what is left out (7 of 13)")
        await pilot.press("escape")
        await shows(pilot, console, "orders-0")


async def test_names_are_filtered_by_a_text_that_they_contain() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("slash")
        await dialog(pilot, console, Prompt)
        await typed(pilot, console, "orders")
        await shows(pilot, console, "names with orders (4 of 13)")
        await until(pilot, lambda: "ledger-3" not in text(console), "ledger-3" + " gone")


async def test_a_plan_with_edits_in_no_file_is_not_thrown_away_unasked() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("x")
        await told(pilot, console, "left out")
        edited = view_of(console).spoken
        await pilot.press("p")
        await dialog(pilot, console, Question)
        await pilot.press("enter")
        await no_dialog(pilot, console)
        assert view_of(console).spoken == edited
        await pilot.press("p")
        await dialog(pilot, console, Question)
        await pilot.press("ctrl+d")
        await no_dialog(pilot, console)
        await until(pilot, lambda: view_of(console).spoken != edited, "another plan")


async def test_the_difference_of_two_replicas_is_asked_for_the_row() -> None:
    console = plan_console(every_verdict())
    heard: list[Message] = []
    async with console.run_test(size=(80, 24), message_hook=heard.append) as pilot:
        await made(pilot, console)
        await at(pilot, console, LEDGER_3)
        console._diff = lambda _: None  # type: ignore[method-assign,assignment]
        await pilot.press("d")
        await until(
            pilot, lambda: any(isinstance(message, DiffAsked) for message in heard), "the question"
        )
        (asked,) = {message.partition for message in heard if isinstance(message, DiffAsked)}
        assert asked == LEDGER_3


async def test_hostile_names_and_reasons_are_inert() -> None:
    console = plan_console(hostile_names())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("x")
        await idle(pilot, console)
        await pilot.press("u", "l")
        await dialog(pilot, console, LeaderDialog)
        shown = text(console)
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        await pilot.press("escape")
        await no_dialog(pilot, console)
        await shows(pilot, console, "[link=x]")


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (40, 10), (120, 40)])
async def test_every_dialog_draws_itself_in_every_size_in_ascii(size: tuple[int, int]) -> None:
    console = plan_console(diverged_incident(), terminal=Terminal(ascii_only=True))
    async with console.run_test(size=size) as pilot:
        await made(pilot, console)
        for key in ("l", "b", "a", "n", "s", "X", "slash"):
            await pilot.press(key)
            await until(pilot, lambda: not isinstance(console.screen, PlanScreen), "a dialog")
            await pilot.pause()
            assert text(console).isascii()
            await pilot.press("escape", "escape")
            await no_dialog(pilot, console)
