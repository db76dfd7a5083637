"""Marking, filtering, and what is asked for of what is marked."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from breakglass.screens.help import HelpScreen
from breakglass.screens.messages import CopyAsked, DiffAsked, ElectionAsked, OfflineAsked, PlanAsked
from breakglass.screens.offline import partition_list
from breakglass.screens.offline.dead_broker import folders_in
from breakglass.screens.offline.forecast import ForecastScreen
from breakglass.screens.offline.partition import PartitionScreen
from breakglass.services.incident.listing import listing
from breakglass.services.model import TopicPartition
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
from tests.screens.offline.offline_console import Asked, listed, opened, shown_list, under_cursor
from tests.screens.turns import lines, text, until

CARTS = tuple(TopicPartition("carts", number) for number in range(3))
LEDGER_3 = LEDGER.partition


class TestMarks:
    async def test_space_marks_what_the_cursor_is_on_and_goes_on(self) -> None:
        async with opened(every_verdict(), size=(120, 40)) as (pilot, console):
            await pilot.press("down", "space", "space")
            assert "2 marked" in text(console)
            marked = [line for line in lines(console) if line.startswith(" *")]
            assert [one.split()[-9] for one in marked] == ["__consumer_offsets-7", "stock-2"]
            await pilot.press("up", "space")
            assert "1 marked" in text(console)

    async def test_a_group_is_marked_with_all_its_partitions_and_shows_it_when_all_are(
        self,
    ) -> None:
        async with opened(incident_of(bomb(0), bomb(1), LEDGER)) as (pilot, console):
            await pilot.press("right", "down", "space")
            assert [line[:2] for line in lines(console) if "carts" in line[:40]][:3] == [
                "  ", " *", "> ",
            ]  # fmt: skip
            await pilot.press("space")
            assert any(
                line.startswith(" *BOMB  stop b4 NOW") and "(2)" in line for line in lines(console)
            )
            assert "2 marked" in text(console)

    async def test_an_asterisk_marks_all_that_the_filter_keeps_and_u_none(self) -> None:
        async with opened(every_verdict(), size=(120, 40)) as (pilot, console):
            await pilot.press("slash", *"verdict:bomb,wait", "enter", "asterisk")
            assert "7 marked" in text(console)
            await pilot.press("escape", "asterisk")
            assert "13 marked" in text(console)
            await pilot.press("asterisk")
            assert "marked" not in text(console)
            await pilot.press("asterisk", "u")
            assert "marked" not in text(console)

    async def test_a_partition_that_is_led_again_is_not_marked_any_more(self) -> None:
        after = incident_of(lossless(1))
        async with opened(incident_of(LEDGER, lossless(1)), after) as (pilot, console):
            await pilot.press("asterisk", "ctrl+r")
            await until(pilot, lambda: "1 marked" in text(console), "the mark that is left")


class TestFilter:
    async def test_a_filter_keeps_what_it_says_while_it_is_written(self) -> None:
        async with opened(every_verdict(), size=(120, 40)) as (pilot, console):
            await pilot.press("slash", *"loss:>0")
            await until(
                pilot,
                lambda: listed(console) == ["__consumer_offsets-7", "ledger-3"],
                "what loses something",
            )
            await pilot.press("enter")
            assert "filter: loss:>0 (2 of 13)" in text(console)
            assert console.focused is shown_list(console)

    async def test_what_cannot_be_read_is_told_with_its_place_and_the_rest_holds(self) -> None:
        async with opened(every_verdict(), size=(120, 40)) as (pilot, console):
            await pilot.press("slash", *"ledger loss:lots")
            assert "at 13: lots is no number" in text(console)
            assert listed(console) == ["ledger-3"]

    async def test_escape_empties_the_field_first_and_then_leaves_it(self) -> None:
        async with opened(every_verdict()) as (pilot, console):
            await pilot.press("slash", *"ledger")
            await until(pilot, lambda: listed(console) == ["ledger-3"], "the filter")
            await pilot.press("escape")
            await until(pilot, lambda: len(listed(console)) > 1, "all again")
            assert console.focused is not shown_list(console)
            await pilot.press("escape")
            assert console.focused is shown_list(console)

    async def test_escape_in_the_list_takes_the_filter_away(self) -> None:
        async with opened(every_verdict()) as (pilot, console):
            await pilot.press("slash", *"ledger", "enter", "escape")
            await until(pilot, lambda: len(listed(console)) > 1, "all again")

    async def test_no_letter_acts_while_the_filter_is_written(self) -> None:
        async with opened(every_verdict()) as (pilot, console):
            asked = Asked(console, ElectionAsked)
            await pilot.press("slash", *"epdf")
            assert asked.messages == []
            assert not isinstance(console.screen, ForecastScreen)

    async def test_the_cursor_is_back_on_its_partition_when_a_filter_is_taken_away(self) -> None:
        async with opened(incident_of(bomb(0), bomb(1), LEDGER)) as (pilot, console):
            await pilot.press("right", "down", "down", "slash", *"nowhere")
            await until(pilot, lambda: "No partition matches" in text(console), "an empty list")
            await pilot.press("escape", "escape")
            await until(pilot, lambda: "carts-1" in under_cursor(console), "the partition")

    async def test_a_filter_that_keeps_none_says_so(self) -> None:
        async with opened(every_verdict()) as (pilot, console):
            await pilot.press("slash", *"nowhere", "enter")
            await until(pilot, lambda: "No partition matches" in text(console), "the word")

    async def test_another_screen_can_ask_for_a_filter(self) -> None:
        async with opened(every_verdict()) as (pilot, console):
            console.post_message(OfflineAsked("broker:4"))
            await until(pilot, lambda: listed(console) == ["▸carts-0..2 (3)"], "the filter")
            assert "filter: broker:4 (3 of 13)" in text(console)

    async def test_a_filter_stays_through_a_refresh_and_keeps_what_is_new(self) -> None:
        after = incident_of(LEDGER, lossless(1), lossless(2))
        async with opened(incident_of(LEDGER, lossless(1)), after) as (pilot, console):
            await pilot.press("slash", *"payments", "enter", "ctrl+r")
            await until(pilot, lambda: "(2 of 3)" in text(console), "the new one")


class TestActs:
    async def test_e_asks_for_the_election_of_what_the_cursor_is_on(self) -> None:
        async with opened(diverged_incident()) as (pilot, console):
            asked = Asked(console, ElectionAsked)
            await pilot.press("e")
            assert [message.partitions for message in asked.messages] == [(LEDGER_3,)]

    async def test_e_asks_for_the_whole_group(self) -> None:
        async with opened(every_verdict()) as (pilot, console):
            asked = Asked(console, ElectionAsked)
            await pilot.press("e")
            assert [message.partitions for message in asked.messages] == [CARTS]

    async def test_e_asks_for_what_is_marked_wherever_the_cursor_is(self) -> None:
        async with opened(every_verdict()) as (pilot, console):
            asked = Asked(console, ElectionAsked)
            await pilot.press("space", "end", "e")
            assert [message.partitions for message in asked.messages] == [CARTS]

    @pytest.mark.parametrize(
        ("keys", "partitions"),
        [
            ([], ()),
            (["space"], CARTS),
            (["slash", *"ledger", "enter"], (LEDGER_3,)),
        ],
        ids=["all", "marked", "kept by the filter"],
    )
    async def test_p_asks_for_a_plan(
        self, keys: list[str], partitions: tuple[TopicPartition, ...]
    ) -> None:
        async with opened(every_verdict()) as (pilot, console):
            asked = Asked(console, PlanAsked)
            await pilot.press(*keys, "p")
            assert [message.partitions for message in asked.messages] == [partitions]

    async def test_p_asks_for_no_plan_of_all_where_the_filter_keeps_none(self) -> None:
        async with opened(every_verdict(), size=(120, 40)) as (pilot, console):
            asked = Asked(console, PlanAsked)
            await pilot.press("slash", *"nosuchtopic", "enter", "p")
            await until(pilot, lambda: console._notifications, "why not")
            (told,) = console._notifications
            assert told.message == "No partition matches the filter: Esc clears it."
            assert asked.messages == []

    @pytest.mark.parametrize("keys", [["p"], ["asterisk", "e"]])
    async def test_acts_on_all_wait_for_the_list_that_the_filter_keeps(
        self, keys: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A look at each of many rows takes a thread: until then the list shows the one before."""
        let_go = threading.Event()

        def slow(*given: Any) -> Any:
            assert not given[1].filter or let_go.wait(10)
            return listing(*given)

        monkeypatch.setattr(partition_list, "AT_ONCE", 0)
        monkeypatch.setattr(partition_list, "listing", slow)
        async with opened(every_verdict()) as (pilot, console):
            plans, elections = Asked(console, PlanAsked), Asked(console, ElectionAsked)
            await pilot.press("slash", *"loss:50", "enter", *keys[:1])
            assert (plans.messages, len(shown_list(console).marks)) == ([], 0)
            let_go.set()
            await until(pilot, lambda: len(shown_list(console).rows) == 1, "the list")
            await pilot.press(*keys[1:])
            asked = [message.partitions for message in plans.messages + elections.messages]
            assert asked == [(LEDGER_3,)]

    async def test_d_asks_for_the_difference_of_the_first_of_a_group(self) -> None:
        async with opened(every_verdict()) as (pilot, console):
            asked = Asked(console, DiffAsked)
            await pilot.press("d", "down", "d")
            named = [str(message.partition) for message in asked.messages]
            assert named == ["carts-0", "__consumer_offsets-7"]

    async def test_y_copies_the_names_of_what_is_marked(self) -> None:
        async with opened(every_verdict()) as (pilot, console):
            asked = Asked(console, CopyAsked)
            await pilot.press("space", "y", "u", "y")
            assert [(message.text, message.what) for message in asked.messages] == [
                ("carts-0\ncarts-1\ncarts-2", "3 names"),
                ("__consumer_offsets-7", "__consumer_offsets-7"),
            ]

    async def test_tab_goes_to_the_replicas_and_back(self) -> None:
        async with opened(every_verdict()) as (pilot, console):
            await pilot.press("tab")
            assert console.focused is not shown_list(console)
            await pilot.press("down", "pagedown", "up", "pageup", "tab")
            assert console.focused is shown_list(console)

    async def test_help_has_every_key(self) -> None:
        async with opened(every_verdict(), size=(120, 60)) as (pilot, console):
            await pilot.press("question_mark")
            assert isinstance(console.screen, HelpScreen)
            shown = text(console)
            for words in (
                "Elect what is marked", "Make a plan", "Compare two replicas", "What happens if",
                "Filter the list", "Copy the names", "To the replicas", "Sort by the next",
                "Mark the line under the cursor", "Mark all that match", "Unmark all", "Open group",
                "Close group", "Clear filter",
            ):  # fmt: skip
                assert words in shown


class TestDeadBroker:
    async def test_r_asks_for_folders_and_says_why_they_cannot_be_read(
        self, tmp_path: Path
    ) -> None:
        async with opened(every_verdict(), size=(100, 30)) as (pilot, console):
            await pilot.press("R")
            await until(pilot, lambda: "Log folders of the broker" in text(console), "a question")
            await pilot.press("enter")
            await until(pilot, lambda: "Name a folder" in text(console), "the fault")
            await pilot.press(*f"log:{tmp_path / 'gone'}", "enter")
            await until(pilot, lambda: "is no folder" in text(console), "the trouble")
            await pilot.press("escape")
            assert shown_list(console).has_focus

    def test_several_folders_are_parted_by_commas(self) -> None:
        assert folders_in(" log:/a b/logs ,/c,") == ("/a b/logs", "/c")


class TestForecast:
    async def test_f_says_what_happens_by_itself_and_whom_to_start(self) -> None:
        async with opened(every_verdict(), size=(100, 30)) as (pilot, console):
            await pilot.press("f")
            await until(pilot, lambda: "If nobody intervenes" in text(console), "the forecast")
            shown = text(console)
            assert "13 offline partitions" in shown
            assert "3  the controller may elect b4 at any moment" in shown
            assert "10  nobody is elected, they stay offline" in shown
            assert "4  start b3 with its disk as it was" in shown
            await pilot.press("escape")
            assert shown_list(console).has_focus

    async def test_it_is_of_what_is_marked(self) -> None:
        async with opened(incident_of(*map(waiting, range(4)), LEDGER)) as (pilot, console):
            await pilot.press("right", "down", "space", "space", "f")
            await until(pilot, lambda: "2 offline partitions marked" in text(console), "of two")
            assert "2  start b3" in text(console)

    async def test_it_fits_a_small_terminal(self) -> None:
        async with opened(every_verdict(), size=(60, 20)) as (pilot, console):
            await pilot.press("f")
            await until(pilot, lambda: "If nobody intervenes" in text(console), "the forecast")
            assert max(map(len, lines(console))) <= 60


class TestPartition:
    async def test_enter_on_a_partition_tells_everything_about_it(self) -> None:
        async with opened(diverged_incident(), size=(200, 50)) as (pilot, console):
            await pilot.press("enter")
            await until(pilot, lambda: "Each choice" in text(console), "the partition")
            shown = text(console)
            for words in (
                "LOSS elect b1",
                "b1 and b2 diverge at 100",
                "electing b2 loses 25; 0 of them known to be committed",
                "b3 loses ?; b3 does not answer (connection refused); b3 is fenced",
                "how many records only b3 may hold: ? consumer groups were not read",
                "epochs written: 0 at 0-99, 2 at 100-124",
                "topic id 11111111-2222-3333-4444-555555555555",
                "unclean leader election no",
                "ISR empty, ELR empty, last known empty",
                "nobody is elected: nobody it may elect is live",
            ):
                assert words in shown
            await pilot.press("escape")
            assert "ledger-3" in under_cursor(console)

    async def test_its_keys_act_on_it(self) -> None:
        async with opened(diverged_incident()) as (pilot, console):
            elections, diffs, copies = (
                Asked(console, kind) for kind in (ElectionAsked, DiffAsked, CopyAsked)
            )
            await pilot.press("enter", "d", "e", "y")
            assert [message.partition for message in diffs.messages] == [LEDGER_3]
            assert [message.partitions for message in elections.messages] == [(LEDGER_3,)]
            assert "b1 and b2 diverge at 100" in copies.messages[0].text

    async def test_when_it_is_led_again_what_was_known_stays_and_says_so(self) -> None:
        async with opened(diverged_incident(), nothing_offline()) as (pilot, console):
            await pilot.press("enter")
            assert isinstance(console.screen, PartitionScreen)
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "not offline any more" in text(console), "the news")
            assert "b1 and b2 diverge at 100" in text(console)

    async def test_hostile_reasons_are_shown_and_do_nothing(self) -> None:
        async with opened(hostile_names(), size=(120, 50)) as (pilot, console):
            await pilot.press("down", "enter")
            await until(pilot, lambda: "Each choice" in text(console), "the partition")
            assert text(console).replace("\n", "").isprintable()
            assert r"\x1b]0;owned\x07 [bold]b3[/bold]" in text(console)
