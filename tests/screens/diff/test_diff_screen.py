"""Two replicas side by side: every key, what is said, and what happens while brokers are slow."""

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
from tests.screens.turns import lines
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
    async with opened() as shown:
        await shown.at_offset(100)
        await shown.until(lambda: "Then ! " in shown.told, "what differs to be counted")
        told = shown.told
        assert "< b1 > b2 as text" in told
        assert "b1 best 0..125 epochs 0 2" in told
        assert "── diverge at 100: b1 in epoch 2, b2 in epoch 1 ──" in told
        assert (
            "Same up to 100, by epochs. Then ! 25 offsets hold different records, < 0 only on b1, "
            "> 25 only on b2." in told
        )
        assert "offset 100: different in epoch (e), value (v)" in told


async def test_each_line_has_its_sign_its_fields_and_both_sides() -> None:
    async with opened(size=(120, 30)) as shown:
        await shown.at_offset(100)
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


@pytest.mark.parametrize(
    ("keys", "at"),
    [
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
    ],
)
async def test_a_key_moves_the_cursor(keys: list[str], at: int) -> None:
    async with opened() as shown:
        await shown.at_offset(100)
        await shown.press(*keys)
        await shown.at_offset(at)
        assert any(line.startswith("▌") for line in lines(shown.app))


async def test_a_page_up_and_a_page_down_come_back() -> None:
    async with opened() as shown:
        await shown.at_offset(100)
        await shown.press("pagedown")
        assert shown.at is not None
        assert shown.at > 105
        await shown.press("pageup")
        assert shown.at is not None
        assert shown.at <= 102


async def test_only_digits_are_taken_for_an_offset() -> None:
    async with opened() as shown:
        await shown.press("g", *"1x[2")
        assert shown.screen.query_one(Input).value == "12"


async def test_the_last_difference_says_that_there_is_none_after_it() -> None:
    async with opened() as shown:
        await shown.press("n")
        await shown.at_offset(125)
        await shown.press("n")
        await shown.until(lambda: "No difference after this record." in shown.told, "the answer")
        await shown.press("d", "N")
        await shown.until(lambda: "No difference before this record." in shown.told, "the answer")
        await shown.press("down")
        await shown.until(lambda: "offset 101: different" in shown.told, "the record")


async def test_the_view_turns_from_text_to_json_to_hex() -> None:
    async with opened(size=(120, 30)) as shown:
        for form, sample in (("JSON", "new of b1"), ("hex", "6e 65 77"), ("text", "new of b1")):
            await shown.press("v")
            await shown.until(lambda form=form: f"as {form}" in shown.told, form)
            assert sample in shown.told


async def test_more_is_read_as_the_cursor_nears_the_end_of_what_is_held() -> None:
    async with opened(LONG, incidents=[incident_of(LONG_LEDGER)], size=(80, 60)) as shown:
        await shown.at_offset(3_000)
        assert (shown.pairs.window.start, shown.pairs.window.end) == (2_980, 3_200)
        await shown.press("pageup")
        await shown.until(lambda: shown.pairs.window.start == 2_780, "what lies before")
        assert shown.at == 2_980
        for _ in range(5):
            await shown.press("pagedown")
        await shown.until(lambda: shown.pairs.window.end == 3_300, "what lies behind")
        await shown.press("end")
        await shown.at_offset(3_299)


async def test_what_was_not_read_is_counted_on_request() -> None:
    async with opened(LONG, incidents=[incident_of(LONG_LEDGER)]) as shown:
        await shown.at_offset(3_000)
        assert "Then nothing is counted yet: c counts." in shown.told
        await shown.press("c")
        await shown.until(
            lambda: (
                "! 10 offsets hold different records, < 0 only on b1, > 290 only on b2"
                in shown.told
            ),
            "totals",
        )


async def test_the_sides_are_exchanged() -> None:
    async with opened() as shown:
        await shown.press("s")
        await shown.until(lambda: "< b2 > b1" in shown.told, "the other way round")
        await shown.until(
            lambda: "< 25 only on b2, > 0 only on b1" in shown.told, "mirrored totals"
        )


async def test_another_replica_is_chosen_for_either_side() -> None:
    async with opened(THREE_LOGS, incidents=[incident_of(THREE)]) as shown:
        assert "< b1 > b2" in shown.told
        await shown.press("o")
        await shown.until(lambda: "< b1 > b4" in shown.told, "b4 on the right")
        await shown.until(lambda: "< 25 only on b1, > 0 only on b4" in shown.told, "counted")
        await shown.press("l")
        await shown.until(lambda: "< b2 > b4" in shown.told, "b2 on the left")
        await shown.until(lambda: "diverge at 100: b2 in epoch 1, b4 ends" in shown.told, "where")


async def test_without_a_third_replica_it_says_why() -> None:
    async with opened() as shown:
        await shown.press("o")
        await shown.until(
            lambda: "No third replica can be read. b3 does not answer" in shown.told, "why"
        )


async def test_two_brokers_are_compared_as_asked_for() -> None:
    async with opened(THREE_LOGS, incidents=[incident_of(THREE)], sides=(4, 2)) as shown:
        assert "< b4 > b2" in shown.told


async def test_a_record_opens_and_closes_where_it_was() -> None:
    async with opened() as shown:
        await shown.press("down", "enter")
        await shown.until(lambda: isinstance(shown.app.screen, RecordScreen), "the record")
        await shown.press("escape")
        await shown.until(lambda: shown.app.screen is shown.screen, "the list")
        assert shown.at == 101


async def test_escape_leaves_and_ends_the_connection() -> None:
    async with opened() as shown:
        await shown.press("escape")
        await shown.until(lambda: shown.app.screen is not shown.screen, "the screen before")
        await shown.until(lambda: shown.replicas.closed == 1, "the end of the connection")


async def test_while_it_reads_it_says_so_and_escape_gives_up() -> None:
    async with opened(held_back=True) as shown:
        await shown.until(
            lambda: "Reading around offset 100. Esc stops it." in shown.told, "what it does"
        )
        await shown.until(shown.replicas.gate.waiting.is_set, "the reading")
        await shown.press("escape")
        await shown.until(lambda: "Given up." in shown.told, "the end")
        assert shown.app.screen is shown.screen
        shown.replicas.gate.opened.set()
        await shown.press("d")
        await shown.at_offset(100)


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
        await shown.until(lambda: "Searching for the next difference" in shown.told, "the search")
        await shown.press("escape")
        await shown.until(lambda: "Given up." in shown.told, "the end")
        assert shown.at == 0


async def test_keys_pressed_while_it_reads_do_no_harm() -> None:
    async with opened(held_back=True) as shown:
        await shown.press("n", "N", "down", "up", "pagedown", "enter", "v", "d", "c", "s", "l", "o")
        await shown.press("home", "end", "g", "escape")
        shown.replicas.gate.opened.set()
        await shown.until(lambda: not shown.screen.busy, "the records")
        assert shown.pairs.window.pairs


async def test_leaving_while_it_reads_does_not_wait_for_the_broker() -> None:
    async with opened(held_back=True) as shown:
        await shown.until(shown.replicas.gate.waiting.is_set, "the reading")
        await shown.press("escape", "escape")
        await shown.until(lambda: shown.app.screen is not shown.screen, "the screen before")


async def test_a_broker_that_cannot_be_reached_is_told() -> None:
    failure = TimedOut("b1 does not answer: check the broker, then press ctrl+r", "timed out")
    async with opened(failure=failure) as shown:
        await shown.until(lambda: "b1 does not answer: check the broker" in shown.told, "why")


async def test_damage_is_shown_in_its_place_and_the_rest_goes_on() -> None:
    damaged: dict[int, Sequence[Item]] = {
        1: [*entries(0, 100, b"shared", 0), *entries(100, 125, b"new of b1", 2)],
        2: [
            *entries(0, 100, b"shared", 0),
            *entries(100, 110, b"old", 1),
            UnreadableRange(110, 120, "its CRC differs; read it from another replica"),
            *entries(120, 150, b"old", 1),
        ],
    }
    async with opened(damaged, size=(120, 40)) as shown:
        await shown.at_offset(100)
        assert "? 11 not known" not in shown.told
        assert "? 10 not known" in shown.told
        await shown.press("n")
        await shown.at_offset(110)
        assert "b2 cannot be read from 110 to 120: its CRC differs" in shown.told
        await shown.press("n")
        await shown.at_offset(120)


async def test_totals_that_were_known_stay_when_a_broker_stops_answering() -> None:
    async with opened() as shown:
        await shown.until(lambda: "! 25 offsets hold different records" in shown.told, "the totals")
        gone = UnreadableRange(0, 150, "b2 did not answer in time: check it")
        shown.replicas.logs = {**LEDGER_LOGS, 2: [gone]}
        await shown.press("c")
        await shown.until(lambda: "the totals are from the last count" in shown.told, "the warning")
        assert "! 25 offsets hold different records" in shown.told
        shown.replicas.logs = LEDGER_LOGS
        await shown.press("c")
        await shown.until(lambda: "the totals are from" not in shown.told, "whole again")


async def test_it_waits_for_evidence_and_begins_when_that_is_there() -> None:
    async with opened(incidents=[unread(1), unread(1)]) as shown:
        await shown.until(lambda: "have not been read yet" in shown.told, "why nothing is shown")


async def test_a_partition_that_is_not_offline_is_not_compared() -> None:
    async with opened() as shown:
        shown.app.context.known.incident = nothing_offline()
        screen = type(shown.screen)(shown.app.context, TopicPartition("orders", 1))
        await shown.app.push_screen(screen)
        await shown.until(lambda: "orders-1 is not offline" in shown.told, "why")


async def test_one_replica_alone_cannot_be_compared() -> None:
    alone = offline(log(1, (0, 100)), silent(2), silent(3), topic="ledger")
    async with opened(incidents=[incident_of(alone)]) as shown:
        await shown.until(lambda: "two replicas are needed to compare" in shown.told, "why")


async def test_logs_that_changed_meanwhile_are_told_and_read_again_on_request() -> None:
    longer = offline(
        log(2, (0, 100), (1, 150), hw=100), log(1, (0, 100), (2, 130)), topic="ledger", number=3
    )
    first, then = incident_of(LEDGER), incident_of(longer)
    async with opened(incidents=[first, then]) as shown:
        await shown.press("down")
        shown.app.context.known.incident = then
        shown.screen.show_known()
        await shown.until(lambda: "The logs have changed since" in shown.told, "the warning")
        assert "0..125" in shown.told
        await shown.press("ctrl+r")
        await shown.until(lambda: "0..130" in shown.told, "the new ends")
        await shown.at_offset(101)


async def test_help_explains_the_signs() -> None:
    async with opened(size=(80, 40)) as shown:
        await shown.press("question_mark")
        await shown.until(lambda: isinstance(shown.app.screen, HelpScreen), "help")
        assert "! different, < only on the left" in shown.told


async def test_a_screenshot_has_lengths_in_place_of_records() -> None:
    async with opened() as shown:
        shown.pairs.redact(True)
        await shown.until(lambda: "9 bytes" in shown.told, "lengths")
        assert "new of b1" not in shown.told
        assert "key-100" not in shown.told
        shown.pairs.redact(False)
        await shown.until(lambda: "key-100" in shown.told, "records")


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (40, 10), (20, 5), (200, 60)])
@pytest.mark.parametrize("theme", ["breakglass-dark", "breakglass-monochrome"])
async def test_it_draws_itself_in_every_size(size: tuple[int, int], theme: str) -> None:
    async with opened(size=size, theme=theme) as shown:
        await shown.at_offset(100)
        await shown.press("enter")
        await shown.until(lambda: isinstance(shown.app.screen, RecordScreen), "the record")
        await shown.pilot.resize_terminal(79, 25)
        await shown.press("escape")
        await shown.until(lambda: shown.app.screen is shown.screen, "the list")
        assert shown.at == 100
