"""Marking, filtering, and what is asked for of what is marked."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from breakglass.screens.help import HelpScreen
from breakglass.screens.messages import CopyAsked, DiffAsked, ElectionAsked, OfflineAsked, PlanAsked
from breakglass.screens.offline import partition_list
from breakglass.screens.offline.dead_broker import folders_in
from breakglass.screens.offline.gone import fault_in
from breakglass.screens.offline.partition import PartitionScreen
from breakglass.screens.widgets.dialog import Prompt
from breakglass.services.incident.listing import listing
from breakglass.services.model import TopicPartition
from breakglass.services.words.broker_ids import brokers_in
from tests.kit.incidents import (
    LEDGER,
    bomb,
    diverged_incident,
    every_verdict,
    hostile_names,
    incident_of,
    lossless,
    nothing_offline,
    waiting,
)
from tests.kit.waiting import DEADLINE_SECONDS
from tests.screens.consoles import watch_of
from tests.screens.offline.offline_console import opened
from tests.screens.turns import is_inert

CARTS = tuple(TopicPartition("carts", number) for number in range(3))
LEDGER_3 = LEDGER.partition


class TestMarks:
    async def test_space_marks_what_the_cursor_is_on_and_an_asterisk_what_the_filter_keeps(
        self,
    ) -> None:
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

    async def test_a_group_is_marked_with_all_its_partitions_and_shows_it_when_all_are(
        self,
    ) -> None:
        async with opened(incident_of(bomb(0), bomb(1), LEDGER)) as page:
            await page.press("right", "down", "space")
            signs = [line[:2] for line in page.lines if "carts" in line[:40]]
            assert signs[:3] == ["  ", " *", "> "]
            await page.press("space")
            await page.shows("2 marked")
            assert any(line.startswith(" *BOMB") and "(2)" in line for line in page.lines)

    async def test_a_partition_that_is_led_again_is_not_marked_any_more(self) -> None:
        after = incident_of(lossless(1))
        async with opened(incident_of(LEDGER, lossless(1)), after) as page:
            await page.press("asterisk", "ctrl+r")
            await page.shows("1 marked")


class TestFilter:
    async def test_a_filter_keeps_what_it_says_while_it_is_written_and_no_letter_acts(
        self,
    ) -> None:
        async with opened(every_verdict(), size=(120, 40)) as page:
            asked = page.asked(ElectionAsked)
            await page.press("slash", *"loss:>0")
            await page.until(
                lambda: page.names == ["__consumer_offsets-7", "ledger-3"], "what loses"
            )
            await page.press("enter")
            await page.shows("loss:>0 (2 of 13)")
            assert page.console.focused is page.table
            await page.press("slash", "ctrl+u", *"ledger loss:lots")
            await page.shows("at 13: lots is no number")
            assert page.names == ["ledger-3"]
            await page.press("ctrl+u", *"epdf", "enter")
            await page.shows("No partition matches")
            assert asked.messages == []

    async def test_escape_empties_the_field_then_leaves_it_and_takes_a_filter_away(self) -> None:
        async with opened(every_verdict()) as page:
            await page.press("slash", *"ledger")
            await page.until(lambda: page.names == ["ledger-3"], "the filter")
            await page.press("escape")
            await page.until(lambda: len(page.names) > 1, "all again")
            assert page.console.focused is not page.table
            await page.press("escape")
            assert page.console.focused is page.table
            await page.press("slash", *"ledger", "enter", "escape")
            await page.until(lambda: len(page.names) > 1, "all again")

    async def test_the_cursor_is_back_on_its_partition_when_a_filter_is_taken_away(self) -> None:
        async with opened(incident_of(bomb(0), bomb(1), LEDGER)) as page:
            await page.press("right", "down", "down", "slash", *"nowhere")
            await page.shows("No partition matches")
            await page.press("escape", "escape")
            await page.until(lambda: "carts-1" in page.under_cursor, "the partition")

    async def test_another_screen_can_ask_for_a_filter(self) -> None:
        async with opened(every_verdict()) as page:
            page.console.post_message(OfflineAsked("broker:4"))
            await page.until(lambda: page.names == ["▸carts-0..2 (3)"], "the filter")
            await page.shows("broker:4 (3 of 13)")

    async def test_a_filter_stays_through_a_refresh_and_keeps_what_is_new(self) -> None:
        after = incident_of(LEDGER, lossless(1), lossless(2))
        async with opened(incident_of(LEDGER, lossless(1)), after) as page:
            await page.press("slash", *"payments", "enter", "ctrl+r")
            await page.shows("(2 of 3)")


class TestActs:
    async def test_e_and_d_are_for_what_the_cursor_is_on_or_for_what_is_marked(self) -> None:
        async with opened(every_verdict()) as page:
            asked, diffs = page.asked(ElectionAsked), page.asked(DiffAsked)
            await page.press("d", "e", "space", "end", "e", "u", "home", "down", "d", "e")
            assert [message.partitions for message in asked.messages] == [
                CARTS,
                CARTS,
                (TopicPartition("__consumer_offsets", 7),),
            ]
            named = [str(message.partition) for message in diffs.messages]
            assert named == ["carts-0", "__consumer_offsets-7"], "the first of a group"

    async def test_p_asks_for_a_plan_of_all_of_the_marked_or_of_what_the_filter_keeps(self) -> None:
        async with opened(every_verdict(), size=(120, 40)) as page:
            asked = page.asked(PlanAsked)
            await page.press("p", "space", "p", "u", "slash", *"ledger", "enter", "p")
            wanted = [message.partitions for message in asked.messages]
            assert wanted == [(), CARTS, (LEDGER_3,)]
            await page.press("slash", "ctrl+u", *"nosuchtopic", "enter", "p")
            await page.until(lambda: len(page.console._notifications) == 1, "why not")
            assert len(asked.messages) == 3, "none of all where the filter keeps none"

    @pytest.mark.parametrize("keys", [["p"], ["asterisk", "e"]])
    async def test_acts_on_all_wait_for_the_list_that_the_filter_keeps(
        self, keys: list[str], monkeypatch: pytest.MonkeyPatch
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

    async def test_y_copies_the_names_and_tab_goes_to_the_replicas_and_back(self) -> None:
        async with opened(every_verdict()) as page:
            asked = page.asked(CopyAsked)
            await page.press("space", "y", "u", "y")
            assert [message.text for message in asked.messages] == [
                "carts-0\ncarts-1\ncarts-2",
                "__consumer_offsets-7",
            ]
            await page.press("tab")
            assert page.console.focused is not page.table
            await page.press("down", "pagedown", "up", "pageup", "tab")
            assert page.console.focused is page.table

    async def test_help_has_every_key(self) -> None:
        async with opened(every_verdict(), size=(120, 60)) as page:
            await page.opens("question_mark", HelpScreen)
            await page.shows(
                "Elect what is marked", "Make a plan", "Compare two replicas", "What happens if",
                "Filter the list", "Copy the names", "To the replicas", "Sort by the next",
                "Mark the line", "Mark all that match", "Unmark all", "Open group",
                "Close group", "Clear filter",
            )  # fmt: skip


class TestBrokers:
    async def test_capital_r_asks_for_folders_and_says_why_they_cannot_be_read(self) -> None:
        async with opened(every_verdict(), size=(100, 30)) as page:
            await page.press("R")
            await page.shows("Log folders of the broker")
            await page.press("enter")
            await page.shows("Name a folder")
            await page.press(*"log:/gone", "enter")
            await page.shows("is no folder")
            await page.press("escape")
            assert page.table.has_focus
        assert folders_in(" log:/a b/logs ,/c,") == ("/a b/logs", "/c")

    async def test_b_declares_brokers_gone_and_an_empty_line_takes_it_back(self) -> None:
        async with opened(every_verdict(), size=(120, 40)) as page:
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

    @pytest.mark.parametrize(
        ("text", "brokers"), [("4", (4,)), ("b4, b7", (4, 7)), (" 0 12 ", (0, 12)), ("", ())]
    )
    def test_ids_are_read_as_they_are_written(self, text: str, brokers: tuple[int, ...]) -> None:
        assert brokers_in(text) == brokers
        assert fault_in(text) == ""

    @pytest.mark.parametrize("text", ["four", "4;5", "-1", "b", "4.5"])
    def test_what_is_no_id_has_a_fault(self, text: str) -> None:
        assert fault_in(text)


class TestForecast:
    async def test_f_says_what_happens_by_itself_and_whom_to_start(self) -> None:
        async with opened(every_verdict(), size=(60, 20)) as page:
            await page.press("f")
            await page.shows("13 offline partitions", "3 the controller may elect b4")
            await page.shows("10 nobody is elected", "4 start b3 if")
            assert max(map(len, page.lines)) <= 60
            await page.press("escape")
            assert page.table.has_focus

    async def test_it_is_of_what_is_marked(self) -> None:
        async with opened(incident_of(*map(waiting, range(4)), LEDGER)) as page:
            await page.press("right", "down", "space", "space", "f")
            await page.shows("2 offline partitions", "2 start b3")


class TestPartition:
    async def test_enter_on_a_partition_shows_everything_about_it_and_keys_act_on_it(
        self,
    ) -> None:
        async with opened(diverged_incident(), nothing_offline(), size=(200, 50)) as page:
            asked = [page.asked(kind) for kind in (ElectionAsked, DiffAsked, CopyAsked)]
            await page.opens("enter", PartitionScreen)
            await page.shows(
                "LOSS elect b1", "b1 and b2 diverge at 100", "b2 loses 25", "b3 loses ?"
            )
            await page.shows("consumer groups were not read", "0 at 0-99, 2 at 100-124")
            await page.shows("topic id 11111111-2222", "ELR empty", "nobody is elected")
            await page.press("d", "e", "y")
            elections, diffs, copies = (one.messages for one in asked)
            assert [message.partition for message in diffs] == [LEDGER_3]
            assert [message.partitions for message in elections] == [(LEDGER_3,)]
            assert "b1 and b2 diverge at 100" in copies[0].text
            await page.press("ctrl+r")
            await page.shows("not offline any more", "b1 and b2 diverge at 100")

    async def test_hostile_reasons_are_shown_and_do_nothing(self) -> None:
        async with opened(hostile_names(), size=(120, 50)) as page:
            await page.press("down", "enter")
            await page.shows("Each choice", r"\x1b]0;owned\x07 [bold]b3[/bold]")
            assert is_inert(page.console)
