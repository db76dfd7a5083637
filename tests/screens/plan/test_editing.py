"""A plan is made, edited, undone and redone by keys, and says at each step what that loses."""

from __future__ import annotations

from breakglass.screens.messages import DiffAsked, PlanAsked
from breakglass.screens.plan import PlanScreen, acts
from breakglass.screens.plan.asking import BrokersDialog, LeaderDialog, RulesDialog
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
from tests.screens.consoles import Asked, watch_of
from tests.screens.plan.plan_consoles import FORK, LEDGER_3, OFFSETS, PlanPage, planned, planning
from tests.screens.turns import is_inert, line_with, opens, strips, text, until
from tests.unit.recovery.replicas import log, offline, silent

EDITS = ("l", "x", "X", "b", "u", "ctrl+y", "a", "s", "e", "v", "n", "f", "d", "space", "enter")


async def test_a_plan_is_made_of_all_that_is_offline_and_leaders_are_chosen_at_their_loss() -> None:
    async with planning() as page:
        await page.shows("No plan yet: p makes one")
        for key in (*EDITS, "slash"):
            await page.press(key)
        assert isinstance(page.console.screen, PlanScreen)
        assert page.screen.view is None
        await page.make()
        before = page.view.spoken
        await page.shows("loses ~490", before)
        assert (len(page.view.rows), len(page.leaders)) == (13, 7)

        await page.at(LEDGER_3)
        await page.choose("l", LeaderDialog, "enter", says="Nothing to change.")
        assert page.view.draft.history.last is None, "who is elected already was chosen"
        await page.ask("enter", LeaderDialog)
        await page.shows("b1 elected, best", "Electing b1 loses 50.")
        await page.press("down", "down", "enter")
        await page.shows("b3 cannot be elected")
        await page.press("up")
        await page.shows("Electing b2 loses 25.")
        await page.press("enter", says="ledger-3: b1 -> b2")
        await page.closes()
        assert page.said.endswith("loses ~490 -> ~465")
        assert page.leaders["ledger-3"] == 2
        assert page.view.draft.plan.records[LEDGER_3].chosen_by is ChosenBy.HAND
        assert page.view.spoken != before
        await page.shows("≠b2")

        await page.at(FORK)
        await page.press("x", says="choose a leader (l)")
        await page.ask("l", LeaderDialog)
        await page.shows("Needs its own consent")
        await page.press("enter", says="audit-5: left out -> b2")


async def test_a_plan_asked_for_by_another_screen_has_its_rows_and_one_without_edits_is_left() -> (
    None
):
    """What is not offline is in no plan, and what is not read yet is elected by none."""
    emptied = offline(log(1, (0, 125)), log(2), silent(3), topic="ledger", number=3)
    async with planning(
        nothing_offline(), unread(3), incident_of(emptied), every_verdict()
    ) as page:
        await page.press("p", says="No partition was offline")
        await page.press("ctrl+r")
        await page.shows("3 offline")
        await page.make()
        assert page.said.startswith("3 partitions")
        assert page.leaders == {}

        page.console._refresher.ask()
        await page.shows("1 offline")
        await page.press("p")
        await until(
            page.pilot, lambda: [row.partition for row in page.view.rows] == [LEDGER_3], "its plan"
        )
        await page.ask("l", LeaderDialog)
        assert "DESTROYS 125" in line_with(page.console, " b2 ")
        await page.press("down")
        await page.shows("b2 is EMPTY")
        segments = [segment for strip in strips(page.console) for segment in strip]
        drawn = [segment.style for segment in segments if "DESTROYS" in segment.text]
        lost = role_style(page.console, Role.LOST).color
        assert [style and style.color for style in drawn] == [lost] * 2
        await page.press("escape")
        await page.closes()

        page.console._refresher.ask()
        await page.shows("13 offline")
        page.console.post_message(PlanAsked([LEDGER_3, FORK]))
        await until(page.pilot, lambda: len(page.view.rows) == 2, "a plan")
        assert [row.partition for row in page.view.rows] == [FORK, LEDGER_3]
        asked = Asked(page.console, DiffAsked)
        await page.at(LEDGER_3)
        await page.press("d")
        await until(page.pilot, lambda: asked.messages, "the question")
        assert [message.partition for message in asked.messages] == [LEDGER_3]
        await page.press("q")
        await until(page.pilot, lambda: watch_of(page.console).closed, "the end")


def test_a_plan_made_here_has_every_partition_however_many_there_are() -> None:
    draft, said_of_it = acts.make(many_offline(1_001), ())
    assert (len(draft.plan.records), said_of_it) == (1_001, "")


async def test_edits_are_taken_back_and_made_again_one_by_one_or_for_all_marked_rows() -> None:
    async with planned() as page:
        first = page.view.spoken
        assert page.screen.check_action("undo", ()) is None
        await page.press("x", says="left out; elects 7 -> 6")
        edited = page.view.spoken
        await page.shows("≠out")
        await page.press("x", says="taken in; elects 6 -> 7")
        assert page.view.spoken == first
        await page.press("u", says="undone: __consumer")
        assert page.view.spoken == edited
        await page.press("u", says="elects 6 -> 7")
        assert page.view.spoken == first
        assert page.screen.check_action("undo", ()) is None
        await page.press("ctrl+y", says="again: __consumer")
        assert page.view.spoken == edited
        await page.press("ctrl+y", says="taken in")
        assert page.screen.check_action("redo", ()) is None

        await page.at(LEDGER_3)
        await page.press("space", "space", "space")
        await page.shows("3 marked")
        await page.press("x", says="elects 7 -> 4")
        await page.press("x", says="elects 4 -> 7")
        await page.press("escape")
        await page.hides("marked")

        await page.at(LEDGER_3)
        done = len(page.view.draft.history.edits)
        await page.press(*["x"] * 6)
        await page.idle()
        assert len(page.view.draft.history.edits) == done + 6
        await page.write("X", Prompt, "ask [b]ada")
        assert page.view.draft.plan.records[LEDGER_3].left_out == "ask [b]ada"
        await page.shows("left out: ask [b]ada")
        row = page.screen.current
        assert row is not None
        assert (row.partition, "ledger-3" in page.leaders) == (LEDGER_3, False)

        edited = page.view.spoken
        await page.choose("p", Question, "enter")
        assert page.view.spoken == edited, "edits in no file are not thrown away unasked"
        await page.choose("p", Question, "ctrl+d")
        await until(page.pilot, lambda: page.view.spoken == first, "another plan")


async def rule(page: PlanPage, downs: int, *keys: str, says: str = "") -> None:
    """Choose the rule so many rows down the list; *keys* are for the brokers it asks for."""
    await page.ask("b", RulesDialog)
    await page.press(*["down"] * downs, "enter")
    if keys:
        await opens(page.pilot, BrokersDialog)
        await page.press(*keys)
    await page.closes()
    await page.press(says=says)


async def test_a_rule_is_for_all_rows_or_for_the_marked_ones_and_filters_show_what_it_did() -> None:
    async with planned() as page:
        before = page.view.spoken
        await page.choose("b", RulesDialog, "escape")
        await rule(page, 3, "escape")
        assert page.view.draft.history.last is None
        await rule(page, 0, says="loses ~490 -> ~425")
        assert (page.leaders["ledger-3"], page.leaders[str(OFFSETS)]) == (2, 2)
        await page.press("u", says="undone")
        await rule(page, 2, "enter", says="Nothing to change.")
        await rule(page, 3, "space", "space", "enter", says="never b1, b2: 7")
        assert page.leaders == {}
        await page.press("u", says="undone: never")
        await rule(page, 4, says="elects 7 -> 3")
        await rule(page, 5, says="elects 3 -> 7")
        assert page.view.spoken == before
        await page.at(LEDGER_3)
        await page.press("space")
        await rule(page, 3, "enter", says="never b1: ledger-3")
        assert page.leaders["orders-0"] == 1

        await page.press("escape", "f")
        await page.idle()
        await page.shows("(1 of 13)", "1 ≠ best")
        await page.press("f")
        await page.shows("(6 of 13)")
        await page.press("escape")
        await page.shows("orders-0")
        await page.write("slash", Prompt, "orders")
        await page.shows("(4 of 13)")
        await page.hides("audit-5")


async def test_hostile_names_and_reasons_are_inert() -> None:
    async with planned(hostile_names()) as page:
        await page.press("x")
        await page.idle()
        await page.press("u")
        await page.ask("l", LeaderDialog)
        assert is_inert(page.console)
        await page.press("escape")
        await page.closes()
        await page.shows("[link=x]")


async def test_every_dialog_draws_itself_in_every_size_in_ascii() -> None:
    async with planned(diverged_incident(), terminal=Terminal(ascii_only=True)) as page:
        for size in ((80, 24), (40, 10)):
            await page.pilot.resize_terminal(*size)
            for key in ("l", "b", "a", "n", "s", "X", "slash"):
                await page.press(key)
                await until(page.pilot, lambda: len(page.console.screen_stack) > 1, "a dialog")
                await page.pilot.pause()
                assert text(page.console).isascii()
                await page.press("escape", "escape")
                await page.closes()
