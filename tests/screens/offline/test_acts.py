"""Marking, filtering, and what is asked for of what is marked."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from breakglass.screens.messages import CopyAsked, DiffAsked, ElectionAsked, OfflineAsked, PlanAsked
from breakglass.screens.offline import partition_list
from breakglass.screens.offline.dead_broker import folders_in
from breakglass.screens.offline.gone import fault_in
from breakglass.screens.offline.partition import PartitionScreen
from breakglass.screens.page import HelpScreen
from breakglass.screens.widgets.dialog import Prompt
from breakglass.services.incident.listing import listing
from breakglass.services.model import TopicPartition
from breakglass.services.words.broker_ids import brokers_in
from tests.kit.incidents import (
    LEDGER,
    bomb,
    diverged_incident,
    every_verdict,
    incident_of,
    lossless,
    nothing_offline,
    waiting,
)
from tests.kit.waiting import DEADLINE_SECONDS
from tests.screens.consoles import watch_of
from tests.screens.offline.offline_console import opened

CARTS = tuple(TopicPartition("carts", number) for number in range(3))
LEDGER_3 = LEDGER.partition


async def test_marks_are_set_on_lines_on_groups_and_on_what_the_filter_keeps() -> None:
    async with opened(every_verdict(), size=(120, 40)) as page:
        await page.press("down", "space", "space")
        await page.shows("2 marked")
        marked = [line for line in page.lines if line.startswith(" *")]
        assert [one.split()[-9] for one in marked] == ["__consumer_offsets-7", "stock-2"]
        await page.press("up", "space")
        await page.shows("1 marked")
        await page.press("u", "slash", *"verdict:bomb,wait", "enter", "asterisk")
        await page.shows("7 marked")
        await page.press("escape", "asterisk")
        await page.shows("13 marked")
        await page.press("asterisk")
        await page.hides("marked")


async def test_a_group_shows_the_mark_of_all_and_the_cursor_and_what_is_led_again_loses_it() -> (
    None
):
    grouped = incident_of(bomb(0), bomb(1), LEDGER)
    before, later = incident_of(LEDGER, lossless(1)), incident_of(lossless(1))
    grown = incident_of(LEDGER, lossless(1), lossless(2))
    async with opened(grouped, before, later, before, grown) as page:
        await page.press("right", "down", "space")
        signs = [line[:2] for line in page.lines if "carts" in line[:40]]
        assert signs[:3] == ["  ", " *", "> "]
        await page.press("space")
        await page.shows("2 marked")
        assert any(line.startswith(" *BOMB") and "(2)" in line for line in page.lines)

        await page.press("u", "home", "down", "down", "slash", *"nowhere")
        await page.shows("No partition matches")
        await page.press("escape", "escape")
        await page.until(lambda: "carts-1" in page.under_cursor, "the cursor back on it")

        await page.press("ctrl+r")
        await page.until(lambda: "payments-1" in page.names, "others")
        await page.press("asterisk", "ctrl+r")
        await page.shows("1 marked")

        await page.press("u", "ctrl+r")
        await page.until(lambda: "ledger-3" in page.names, "the other again")
        await page.press("slash", *"payments", "enter", "ctrl+r")
        await page.shows("(2 of 3)")


async def test_a_filter_keeps_what_it_says_while_it_is_written_and_escape_takes_it_away() -> None:
    """No letter acts."""
    async with opened(every_verdict(), size=(120, 40)) as page:
        asked = page.asked(ElectionAsked)
        await page.press("slash", *"loss:>0")
        await page.until(lambda: page.names == ["__consumer_offsets-7", "ledger-3"], "what loses")
        await page.press("enter")
        await page.shows("loss:>0 (2 of 13)")
        assert page.console.focused is page.table
        await page.press("slash", "ctrl+u", *"ledger loss:lots")
        await page.shows("at 13: lots is no number")
        assert page.names == ["ledger-3"]
        await page.press("ctrl+u", *"epdf", "enter")
        await page.shows("No partition matches")
        assert asked.messages == []

        await page.press("escape", "slash", *"ledger")
        await page.until(lambda: page.names == ["ledger-3"], "the filter")
        await page.press("escape")
        await page.until(lambda: len(page.names) > 1, "all again")
        assert page.console.focused is not page.table
        await page.press("escape")
        assert page.console.focused is page.table
        await page.press("slash", *"ledger", "enter", "escape")
        await page.until(lambda: len(page.names) > 1, "all again")
        page.console.post_message(OfflineAsked("broker:4"))
        await page.until(lambda: page.names == ["▸carts-0..2 (3)"], "another screen's filter")
        await page.shows("broker:4 (3 of 13)")


async def test_acts_are_for_what_the_cursor_is_on_or_for_what_is_marked_or_kept_by_the_filter() -> (
    None
):
    async with opened(every_verdict(), size=(120, 60)) as page:
        elections, diffs = page.asked(ElectionAsked), page.asked(DiffAsked)
        await page.press("d", "e", "space", "end", "e", "u", "home", "down", "d", "e")
        assert [message.partitions for message in elections.messages] == [
            CARTS,
            CARTS,
            (TopicPartition("__consumer_offsets", 7),),
        ]
        named = [str(message.partition) for message in diffs.messages]
        assert named == ["carts-0", "__consumer_offsets-7"], "the first of a group"

        copies = page.asked(CopyAsked)
        await page.press("home", "space", "y", "u", "y")
        texts = [message.text for message in copies.messages]
        assert texts == ["carts-0\ncarts-1\ncarts-2", "__consumer_offsets-7"]
        await page.press("tab")
        assert page.console.focused is not page.table
        await page.press("down", "pagedown", "up", "pageup", "tab")
        assert page.console.focused is page.table

        plans = page.asked(PlanAsked)
        await page.press("home", "p", "space", "p", "u", "slash", *"ledger", "enter", "p")
        assert [message.partitions for message in plans.messages] == [(), CARTS, (LEDGER_3,)]
        await page.press("slash", "ctrl+u", *"nosuchtopic", "enter", "p")
        await page.until(lambda: len(page.console._notifications) == 1, "why not")
        assert len(plans.messages) == 3, "none of all where the filter keeps none"

        await page.opens("question_mark", HelpScreen)
        await page.shows(
            "Elect what is marked", "Make a plan", "Compare two replicas", "What happens if",
            "Filter the list", "Copy the names", "To the replicas", "Sort by the next",
            "Mark the line", "Mark all that match", "Unmark all", "Open group",
            "Close group", "Clear filter",
        )  # fmt: skip


@pytest.mark.parametrize("keys", [["p"], ["asterisk", "e"]])
async def test_acts_on_all_wait_for_the_list_that_the_filter_keeps(
    keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at each of many rows takes a thread: until then the list shows the one before."""
    let_go = threading.Event()

    def slow(*given: Any) -> Any:
        assert not given[1].filter or let_go.wait(DEADLINE_SECONDS)
        return listing(*given)

    monkeypatch.setattr(partition_list, "AT_ONCE", 0)
    monkeypatch.setattr(partition_list, "listing", slow)
    async with opened(every_verdict()) as page:
        plans, elections = page.asked(PlanAsked), page.asked(ElectionAsked)
        await page.press("slash", *"loss:50", "enter", *keys[:1])
        assert (plans.messages, len(page.table.marks)) == ([], 0)
        let_go.set()
        await page.until(lambda: len(page.table.rows) == 1, "the list")
        await page.press(*keys[1:])
        both = plans.messages + elections.messages
        assert [message.partitions for message in both] == [(LEDGER_3,)]


async def test_brokers_are_declared_gone_and_taken_back_and_folders_asked_for_by_their_keys() -> (
    None
):
    async with opened(every_verdict(), size=(120, 40)) as page:
        await page.press("R")
        await page.shows("Log folders of the broker")
        await page.press("enter")
        await page.shows("Name a folder")
        await page.press(*"log:/gone", "enter")
        await page.shows("is no folder")
        await page.press("escape")
        assert page.table.has_focus

        watch = watch_of(page.console)
        await page.opens("b", Prompt)
        await page.press(*"four", "enter")
        await page.shows("by their ids: 4 7")
        assert watch.asked == [True]
        await page.press("ctrl+u", *"b4 3", "enter")
        await page.shows("declared gone: b4, b3")
        assert (watch.gone, watch.asked) == ((4, 3), [True, True])
        await page.opens("b", Prompt)
        await page.press("ctrl+u", "enter")
        await page.until(lambda: watch.gone == (), "nothing declared")
        await page.opens("b", Prompt)
        await page.shows("tab Those that do not answer")
        await page.press("tab", "enter")
        await page.until(lambda: watch.gone == (3,), "the silent one declared")


def test_folders_and_ids_are_read_as_they_are_written_and_what_is_no_id_has_a_fault() -> None:
    assert folders_in(" log:/a b/logs ,/c,") == ("/a b/logs", "/c")
    for text, brokers in {"4": (4,), "b4, b7": (4, 7), " 0 12 ": (0, 12), "": ()}.items():
        assert brokers_in(text) == brokers
        assert fault_in(text) == ""
    assert all(map(fault_in, ("four", "4;5", "-1", "b", "4.5")))


async def test_f_says_what_happens_by_itself_to_what_is_marked_or_to_all_and_whom_to_start() -> (
    None
):
    few = incident_of(*map(waiting, range(4)), LEDGER)
    async with opened(every_verdict(), few, size=(60, 20)) as page:
        await page.press("f")
        await page.shows("13 offline partitions", "3 the controller may elect b4")
        await page.shows("10 nobody is elected", "4 start b3 if")
        assert max(map(len, page.lines)) <= 60
        await page.press("escape")
        assert page.table.has_focus
        await page.press("ctrl+r")
        await page.until(lambda: len(page.table.rows) == 2, "fewer")
        await page.press("home", "right", "down", "space", "space", "f")
        await page.shows("2 offline partitions", "2 start b3")


async def test_enter_on_a_partition_shows_everything_about_it_and_keys_act_on_it() -> None:
    async with opened(diverged_incident(), nothing_offline(), size=(200, 50)) as page:
        asked = [page.asked(kind) for kind in (ElectionAsked, DiffAsked, CopyAsked)]
        await page.opens("enter", PartitionScreen)
        await page.shows("LOSS elect b1", "b1 and b2 diverge at 100", "b2 loses 25", "b3 loses ?")
        await page.shows("consumer groups were not read", "0 at 0-99, 2 at 100-124")
        await page.shows("topic id 11111111-2222", "ELR empty", "nobody is elected")
        await page.press("d", "e", "y")
        elections, diffs, copies = (one.messages for one in asked)
        assert [message.partition for message in diffs] == [LEDGER_3]
        assert [message.partitions for message in elections] == [(LEDGER_3,)]
        assert "b1 and b2 diverge at 100" in copies[0].text
        await page.press("ctrl+r")
        await page.shows("not offline any more", "b1 and b2 diverge at 100")
