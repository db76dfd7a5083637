"""Two replicas side by side: every key, what is shown, and what happens while brokers are slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from textual.widgets import Input

from breakglass.screens.diff.record_page import RecordScreen
from breakglass.screens.help import HelpScreen
from breakglass.services.divergence.entry import Item, UnreadableRange
from breakglass.services.errors import TimedOut
from breakglass.services.model import TopicPartition
from tests.kit.incidents import LEDGER, incident_of, nothing_offline, unread
from tests.screens.diff.opened import LEDGER_LOGS, opened
from tests.screens.turns import lines, opens
from tests.unit.divergence.streams import entries
from tests.unit.recovery.replicas import PLAIN, log, offline, silent

pytestmark = pytest.mark.usefixtures("bare_pages")

LONG = {
    1: [*entries(0, 3_000, b"shared", 0), *entries(3_000, 3_010, b"new", 2)],
    2: [*entries(0, 3_000, b"shared", 0), *entries(3_000, 3_300, b"old", 1)],
}
LONG_LEDGER = offline(
    log(2, (0, 3_000), (1, 3_300)), silent(3), log(1, (0, 3_000), (2, 3_010)), topic="ledger"
)
THREE = offline(
    log(1, (0, 100), (2, 125)), log(2, (0, 100), (1, 150)), log(4, (0, 100)), topic="ledger"
)
THREE_LOGS = {**LEDGER_LOGS, 4: entries(0, 100, b"shared", 0)}


async def test_it_opens_where_the_best_and_the_one_that_loses_most_part() -> None:
    async with opened(size=(120, 30)) as shown:
        await shown.at_offset(100)
        await shown.says("Then ! 25", "< b1 > b2 as text", "b1 best 0..125 epochs 0 2")
        await shown.says("diverge at 100", "> 25 only on b2.", "offset 100: different in")
        by_offset = {line.split()[1]: line for line in lines(shown.app) if "key-" in line}
        assert by_offset["99"].split()[:2] == ["=", "99"]
        (line,) = [line for line in lines(shown.app) if line.startswith("▌")]
        left, _, right = line.partition("│")
        assert left.split() == ["▌", "!ev", "100", "e2", "22:13:20", "key-100", "new", "of", "b1"]
        assert right.split() == ["e1", "22:13:20", "key-100", "old", "of", "b2"]


async def test_narrow_the_sides_stand_below_each_other() -> None:
    async with opened(size=(60, 20)) as shown:
        await shown.at_offset(100)
        at = next(place for place, line in enumerate(lines(shown.app)) if line.startswith("▌"))
        assert lines(shown.app)[at].split()[1:4] == ["!<ev", "100", "e2"]
        assert lines(shown.app)[at + 1].split()[1:4] == ["!>", "100", "e1"]


async def test_each_key_moves_the_cursor_from_where_they_part() -> None:
    async with opened() as shown:
        for keys, at in (
            (["down"], 101),
            (["j", "j"], 102),
            (["up"], 99),
            (["k"], 99),
            (["n"], 125),
            (["n", "N"], 100),
            (["home"], 0),
            (["end"], 149),
            (["end", "d"], 100),
            (["g", *"42", "enter"], 42),
            (["g", *"1,0", "enter"], 10),
            (["g", *"999", "enter"], 149),
            (["g", *"42", "escape"], 100),
            (["g", "enter"], 100),
        ):
            await shown.press("d")
            await shown.at_offset(100)
            for key in keys:
                await shown.press(key)
                await shown.until(lambda: not shown.screen.busy, "the end of a task")
            await shown.at_offset(at)
            assert any(line.startswith("▌") for line in lines(shown.app))
        await shown.press("pagedown")
        assert (shown.at or 0) > 105
        await shown.press("pageup")
        assert (shown.at or 0) <= 102
        await shown.press("g", *"1x[2")
        assert shown.screen.query_one(Input).value == "12"


async def test_the_last_difference_says_that_there_is_none_after_it() -> None:
    async with opened() as shown:
        await shown.press("n")
        await shown.at_offset(125)
        await shown.press("n")
        await shown.says("No difference after")
        await shown.press("d")
        await shown.at_offset(100)
        await shown.press("N")
        await shown.says("No difference before")
        await shown.press("down")
        await shown.says("offset 101: different")


async def test_the_view_turns_from_text_to_json_to_hex() -> None:
    async with opened(size=(120, 30)) as shown:
        for form, sample in (("JSON", "new of b1"), ("hex", "6e 65 77"), ("text", "new of b1")):
            await shown.press("v")
            await shown.says(f"as {form}", sample)


async def test_more_is_read_as_the_cursor_nears_the_end_and_the_rest_is_counted_on_request() -> (
    None
):
    async with opened(LONG, incidents=[incident_of(LONG_LEDGER)], size=(80, 60)) as shown:
        await shown.at_offset(3_000)
        assert (shown.pairs.window.start, shown.pairs.window.end) == (2_980, 3_200)
        await shown.says("c counts")
        await shown.press("pageup")
        await shown.until(lambda: shown.pairs.window.start == 2_780, "what lies before")
        assert shown.at == 2_980
        for _ in range(5):
            await shown.press("pagedown")
        await shown.until(lambda: shown.pairs.window.end == 3_300, "what lies behind")
        await shown.press("end")
        await shown.at_offset(3_299)
        await shown.press("c")
        await shown.says("! 10 offsets", "> 290 only on b2")


async def test_sides_are_exchanged_and_another_replica_is_chosen_for_either() -> None:
    async with opened(THREE_LOGS, incidents=[incident_of(THREE)]) as shown:
        for key, sides, counted in (
            ("s", "< b2 > b1", "< 25 only on b2, > 0"),
            ("s", "< b1 > b2", "> 25 only on b2"),
            ("o", "< b1 > b4", "< 25 only on b1, > 0"),
            ("l", "< b2 > b4", "b2 in epoch 1, b4 ends"),
        ):
            await shown.press(key)
            await shown.says(sides, counted)
    async with opened(THREE_LOGS, incidents=[incident_of(THREE)], sides=(4, 2)) as shown:
        await shown.says("< b4 > b2")


async def test_a_record_opens_and_closes_where_it_was_and_escape_ends_the_connection() -> None:
    async with opened() as shown:
        await shown.press("o")
        await shown.says("No third replica can be")
        await shown.press("down", "enter")
        await opens(shown.pilot, RecordScreen)
        await shown.press("escape")
        await shown.is_back()
        assert shown.at == 101
        await shown.press("escape")
        await shown.is_left()
        await shown.until(lambda: shown.replicas.closed == 1, "the end of the connection")


async def test_while_it_reads_keys_do_no_harm_and_escape_gives_up_and_leaves() -> None:
    async with opened(held_back=True) as shown:
        await shown.says("around offset 100")
        await shown.until(shown.replicas.gate.waiting.is_set, "the reading")
        await shown.press("escape")
        await shown.says("Given up.")
        assert shown.app.screen is shown.screen
        await shown.press("n", "N", "down", "up", "pagedown", "enter", "v", "d", "c", "s", "l", "o")
        await shown.press("home", "end", "g", "escape")
        shown.replicas.gate.opened.set()
        await shown.until(lambda: not shown.screen.busy, "the end of a task")
        await shown.press("d")
        await shown.at_offset(100)
    async with opened(held_back=True) as shown:
        await shown.until(shown.replicas.gate.waiting.is_set, "the reading")
        await shown.press("escape", "escape")
        await shown.is_left()


async def test_a_search_tells_how_far_it_is_and_can_be_given_up() -> None:
    same = {1: entries(0, 3_000, b"same", 0), 2: entries(0, 3_000, b"same", 0)}
    without_proof = replace(
        offline(log(1, (0, 3_000)), log(2, (0, 3_000)), topic="ledger"),
        settings=replace(PLAIN, compacted=True),
    )
    async with opened(same, incidents=[incident_of(without_proof)]) as shown:
        await shown.press("home")
        await shown.at_offset(0)
        shown.replicas.gate.opened.clear()
        await shown.press("n")
        await shown.says("Searching for the next")
        await shown.press("escape")
        await shown.says("Given up.")
        assert shown.at == 0


async def test_what_cannot_be_compared_says_why() -> None:
    failure = TimedOut("b1 does not answer", "timed out")
    alone = offline(log(1, (0, 100)), silent(2), silent(3), topic="ledger")
    async with opened(failure=failure) as shown:
        await shown.says("b1 does not answer")
    for evidence, words in (
        (unread(1), "have not been read yet"),
        (incident_of(alone), "two replicas are needed"),
    ):
        async with opened(incidents=[evidence, evidence]) as shown:
            await shown.says(words)
    async with opened() as shown:
        shown.app.context.known.incident = nothing_offline()
        screen = type(shown.screen)(shown.app.context, TopicPartition("orders", 1))
        await shown.app.push_screen(screen)
        await shown.says("orders-1 is not offline")


async def test_damage_is_shown_in_its_place_and_the_rest_goes_on() -> None:
    damage = UnreadableRange(110, 120, "its CRC differs")
    old: list[Item] = [*entries(100, 110, b"old", 1), damage, *entries(120, 150, b"old", 1)]
    damaged: dict[int, Sequence[Item]] = {
        1: LEDGER_LOGS[1],
        2: [*entries(0, 100, b"shared", 0), *old],
    }
    async with opened(damaged, size=(120, 40)) as shown:
        await shown.at_offset(100)
        await shown.says("? 10 not known")
        await shown.press("n")
        await shown.at_offset(110)
        await shown.says("from 110 to 120")
        await shown.press("n")
        await shown.at_offset(120)


async def test_totals_that_were_known_stay_when_a_broker_stops_answering() -> None:
    async with opened() as shown:
        await shown.says("! 25 offsets")
        shown.replicas.logs = {**LEDGER_LOGS, 2: [UnreadableRange(0, 150, "no answer")]}
        await shown.press("c")
        await shown.says("from the last count", "! 25 offsets")
        shown.replicas.logs = LEDGER_LOGS
        await shown.press("c")
        await shown.until(lambda: "from the last count" not in shown.told, "whole again")


async def test_logs_that_changed_meanwhile_are_told_and_read_again_on_request() -> None:
    longer = offline(
        log(2, (0, 100), (1, 150), hw=100), log(1, (0, 100), (2, 130)), topic="ledger", number=3
    )
    first, then = incident_of(LEDGER), incident_of(longer)
    async with opened(incidents=[first, then]) as shown:
        await shown.press("down")
        shown.app.context.known.incident = then
        shown.screen.show_known()
        await shown.says("have changed since", "0..125")
        await shown.press("ctrl+r")
        await shown.says("0..130")
        await shown.at_offset(101)


async def test_help_explains_the_signs_and_a_screenshot_has_lengths_in_place_of_records() -> None:
    async with opened(size=(80, 40)) as shown:
        await shown.press("question_mark")
        await opens(shown.pilot, HelpScreen)
        await shown.says("< only on the left")
        await shown.press("escape")
        await shown.is_back()
        shown.pairs.redact(True)
        await shown.says("9 bytes")
        assert "new of b1" not in shown.told
        assert "key-100" not in shown.told
        shown.pairs.redact(False)
        await shown.says("key-100")


@pytest.mark.parametrize("size", [(60, 20), (20, 5), (200, 60)])
async def test_it_draws_itself_in_every_size(size: tuple[int, int]) -> None:
    async with opened(size=size, theme="breakglass-monochrome") as shown:
        await shown.at_offset(100)
        await shown.press("enter")
        await opens(shown.pilot, RecordScreen)
        await shown.pilot.resize_terminal(79, 25)
        await shown.press("escape")
        await shown.is_back()
        assert shown.at == 100
