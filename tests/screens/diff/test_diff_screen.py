"""Two replicas side by side: every key, what is shown, and what happens while brokers are slow."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from textual.widgets import Input

from breakglass.screens.diff.screen import DiffScreen
from breakglass.screens.help import HelpScreen
from breakglass.services import patience
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.divergence.source import Item, UnreadableRange, content_of
from breakglass.services.errors import TimedOut
from breakglass.services.model import TopicPartition
from breakglass.services.session import ReadAccess
from tests.kit.fake_broker import FakeBroker
from tests.kit.incidents import diverged_incident, incident_of, nothing_offline, unread
from tests.screens.consoles import console_on, watch_of
from tests.screens.diff.opened import LEDGER_LOGS, opened
from tests.screens.turns import is_inert, lines, opens, shows, text, until
from tests.unit.divergence.streams import entries, entry
from tests.unit.recovery.replicas import PLAIN, log, offline, silent

pytestmark = pytest.mark.usefixtures("bare_pages")

SHARED, OLD = entries(0, 100, b"shared", 0), LEDGER_LOGS[2]
LONG = {
    1: [*entries(0, 3_000, b"shared", 0), *entries(3_000, 3_010, b"new", 2)],
    2: [*entries(0, 3_000, b"shared", 0), *entries(3_000, 3_300, b"old", 1)],
}
LONG_LEDGER = offline(
    log(2, (0, 3_000), (1, 3_300)), silent(3), log(1, (0, 3_000), (2, 3_010)), topic="ledger"
)
THREE, LATER = (
    incident_of(offline(log(1, (0, 100), (2, end)), log(2, (0, 100), (1, 150)), log(4, (0, 100))))
    for end in (125, 130)
)
HOSTILE = b'{"a": "\x1b[2J\x07[bold red]x[/]", "b": "\xe2\x80\xae"}' + b"\xff\x00"


def with_values(one: bytes, other: bytes) -> dict[int, Sequence[Item]]:
    logs = {broker: [*LEDGER_LOGS[broker]] for broker in (1, 2)}
    for broker, value, epoch in ((1, one, 2), (2, other, 1)):
        logs[broker][100] = entry(100, epoch=epoch)._replace(value=content_of(value, 10**8))
    return {**logs}


async def test_a_person_looks_from_the_divergence_at_all_that_differs() -> None:
    async with opened(size=(120, 30)) as shown:
        await shown.at_offset(100)
        await shown.says("Then ! 25", "< b1 > b2 as text", "b1 best 0..125 epochs 0 2")
        await shown.says("diverge at 100", "> 25 only on b2.", "offset 100: different in")
        by_offset = {line.split()[1]: line for line in lines(shown.console) if "key-" in line}
        assert by_offset["99"].split()[:2] == ["=", "99"]
        (line,) = [line for line in lines(shown.console) if line.startswith("▌")]
        left, _, right = line.partition("│")
        assert left.split() == ["▌", "!ev", "100", "e2", "22:13:20", "key-100", "new", "of", "b1"]
        assert right.split() == ["e1", "22:13:20", "key-100", "old", "of", "b2"]

        for keys, at in (
            *(("down", 101), ("j j", 102), ("up", 99), ("k", 99), ("n", 125), ("n N", 100)),
            *(("home", 0), ("end", 149), ("end d", 100), ("g 4 2 enter", 42)),
            *(("g 1 , 0 enter", 10), ("g 9 9 9 enter", 149), ("g 4 2 escape", 100)),
            ("g enter", 100),
        ):
            await shown.walks(("d", 100), (keys, at))
            assert any(line.startswith("▌") for line in lines(shown.console))
        await shown.press("pagedown")
        assert (shown.at or 0) > 105
        await shown.press("pageup")
        assert (shown.at or 0) <= 102
        await shown.press("g", *"1x[2")
        assert shown.screen.query_one(Input).value == "12"
        await shown.press("escape")

        await shown.walks(("d n", 125))
        await shown.press("n")
        await shown.says("No difference after")
        await shown.walks(("d", 100))
        await shown.press("N")
        await shown.says("No difference before")
        await shown.press("down")
        await shown.says("offset 101: different")
        for form, sample in (("JSON", "new of b1"), ("hex", "6e 65 77"), ("text", "new of b1")):
            await shown.press("v")
            await shown.says(f"as {form}", sample)

        await shown.press("o")
        await shown.says("No third replica can be")
        await shown.press("question_mark")
        await opens(shown.pilot, HelpScreen)
        await shown.says("< only on the left")
        await shown.closes_record()
        shown.pairs.redact(True)
        await shown.says("9 bytes")
        assert "new of b1" not in shown.text
        assert "key-100" not in shown.text
        shown.pairs.redact(False)
        await shown.says("key-100")
        await shown.press("escape")
        await shown.is_left()
        await shown.until(lambda: shown.replicas.closed == 1, "the end of the connection")


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
        await shown.walks(("end", 3_299))
        await shown.press("c")
        await shown.says("! 10 offsets", "> 290 only on b2")


async def test_sides_are_exchanged_and_chosen_and_logs_that_changed_are_read_again() -> None:
    async with opened({**LEDGER_LOGS, 4: SHARED}, incidents=[THREE, LATER]) as shown:
        for key, *words in (("s", "< b2 > b1", "< 25 only on b2, > 0"), ("s", "< b1 > b2", "> 25")):
            await shown.press(key)
            await shown.says(*words)
        await shown.press("down")
        shown.console.context.known.incident = LATER
        shown.replicas.logs = {1: [*SHARED, *entries(100, 130, b"new", 2)], 2: OLD, 4: SHARED}
        shown.screen.show_known()
        await shown.says("have changed since", "0..125")
        await shown.press("ctrl+r")
        await shown.says("0..130")
        await shown.at_offset(101)
        for key, *words in (
            ("o", "< b1 > b4", "< 30 only on b1, > 0"),
            ("l", "< b2 > b4", "b4 ends"),
        ):
            await shown.press(key)
            await shown.says(*words)
        await (await shown.compares(THREE, {**LEDGER_LOGS, 4: SHARED}, sides=(4, 2))).says(
            "< b4 > b2"
        )


async def test_while_it_reads_or_searches_keys_do_no_harm_and_escape_gives_up_and_leaves() -> None:
    async with opened(held_back=True) as shown:
        await shown.says("around offset 100")
        await shown.until(shown.replicas.gate.waiting.is_set, "the reading")
        await shown.press("escape")
        await shown.says("Given up.")
        assert shown.console.screen is shown.screen
        await shown.press("n", "N", "down", "up", "pagedown", "enter", "v", "d", "c", "s", "l", "o")
        await shown.press("home", "end", "g", "escape")
        shown.replicas.gate.opened.set()
        await shown.until(lambda: not shown.screen.busy, "the end of a task")
        await shown.walks(("d", 100))

        hasty = await shown.compares(held_back=True)
        await hasty.until(hasty.replicas.gate.waiting.is_set, "the reading")
        await hasty.press("escape", "escape")
        await hasty.is_left()

        without_proof = replace(
            offline(log(1, (0, 3_000)), log(2, (0, 3_000)), topic="ledger"),
            settings=replace(PLAIN, compacted=True),
        )
        same = dict.fromkeys((1, 2), entries(0, 3_000, b"same", 0))
        searching = await shown.compares(incident_of(without_proof), same)
        await searching.walks(("home", 0))
        searching.replicas.gate.opened.clear()
        await searching.press("n")
        await searching.says("Searching for the next")
        await searching.press("escape")
        await searching.says("Given up.")
        assert searching.at == 0


async def test_what_cannot_be_compared_says_why_and_what_cannot_be_read_stands_in_its_place() -> (
    None
):
    damage = UnreadableRange(110, 120, "its CRC differs")
    old: list[Item] = [*entries(100, 110, b"old", 1), damage, *entries(120, 150, b"old", 1)]
    async with opened({1: LEDGER_LOGS[1], 2: [*SHARED, *old]}, size=(120, 40)) as shown:
        await shown.at_offset(100)
        await shown.says("? 10 not known")
        await shown.walks(("n", 110))
        await shown.says("from 110 to 120")
        await shown.walks(("n", 120))

        counted = await shown.compares()
        await counted.says("! 25 offsets")
        counted.replicas.logs = {**LEDGER_LOGS, 2: [UnreadableRange(0, 150, "no answer")]}
        await counted.press("c")
        await counted.says("from the last count", "! 25 offsets")
        counted.replicas.logs = LEDGER_LOGS
        await counted.press("c")
        await counted.until(lambda: "from the last count" not in counted.text, "whole again")

        failed = await shown.compares(failure=TimedOut("b1 does not answer", "timed out"))
        await failed.says("b1 does not answer")
        alone = incident_of(offline(log(1, (0, 100)), silent(2), silent(3), topic="ledger"))
        await (await shown.compares(unread(1))).says("have not been read yet")
        await (await shown.compares(alone)).says("two replicas are needed")
        shown.console.context.known.incident = nothing_offline()
        await shown.console.push_screen(
            DiffScreen(shown.console.context, TopicPartition("orders", 1))
        )
        await shown.says("orders-1 is not offline")


async def test_a_record_has_every_field_of_both_sides_in_every_form() -> None:
    async with opened(size=(120, 30)) as shown:
        view = await shown.opens_record()
        told = [line.split() for line in lines(shown.console)]
        assert ["!", "epoch", "2", "│", "1"] in told
        assert ["!", "new", "of", "b1", "│", "old", "of", "b2"] in told
        await shown.says("ledger-3 < b1 > b2", "different in epoch, value")
        view.redact(True)
        await shown.says("9 bytes")
        assert "new of b1" not in shown.text
        await shown.closes_record()

        shown.replicas.logs = with_values(b"amount: 100", b"amount: 105")
        view = await shown.opens_record()
        row = next(y for y in range(20) if "amount" in view.render_line(y).text)
        marked = [
            piece.text for piece in view.render_line(row) if piece.style and piece.style.underline
        ]
        assert marked == ["0", "5"]
        await shown.closes_record()

        shown.replicas.logs = with_values(b'{"a":1}', b'{"a":2}')
        await shown.opens_record()
        for sample in ('"a": 1', "7b 22 61 22"):
            await shown.press("v")
            await shown.says(sample)
        await shown.closes_record()

        shown.replicas.gate.opened.clear()
        await shown.press("enter")
        await shown.says("record at offset 100")
        await shown.press("escape")
        await shown.says("Stopped: ", "new of b1")
        shown.replicas.gate.opened.set()
        await shown.closes_record()
        shown.replicas.logs = {1: entries(0, 90), 2: entries(0, 90)}
        await shown.opens_record()
        await shown.says("Neither replica has")


async def test_a_long_or_hostile_value_is_folded_scrolls_and_is_inert() -> None:
    long = b"".join(b"line %d %s\n" % (number, b"x" * 150) for number in range(300))
    async with opened(with_values(HOSTILE, b"[" * 100_000)) as shown:
        for _ in range(3):
            assert is_inert(shown.console)
            await shown.opens_record()
            assert "value" in text(shown.console)
            assert is_inert(shown.console)
            await shown.closes_record()
            await shown.press("v")

        shown.replicas.logs = with_values(long, long + b"more")
        view = await shown.opens_record()
        await shown.press("end")
        await shown.says("more")
        bottom = view.scroll_offset.y
        assert bottom > 300
        for key, at in (("up", bottom - 1), ("down", bottom), ("k", bottom - 1), ("j", bottom)):
            await shown.press(key)
            await shown.until(lambda at=at: view.scroll_offset.y == at, f"line {at}")
        await shown.press("pageup")
        await shown.until(lambda: view.scroll_offset.y < bottom - 3, "a page up")
        await shown.press("pagedown")
        await shown.until(lambda: view.scroll_offset.y == bottom, "a page down")
        await shown.press("home")
        await shown.until(lambda: view.scroll_offset.y == 0, "the top")
        await shown.closes_record()

        large = b"x" * 1_000_000
        shown.replicas.logs = with_values(large, large + b"y")
        await shown.opens_record()
        await shown.says("the first 65,536 of")


FOR_EVER = 1e6


@pytest.fixture
def hung(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBroker]:
    for question in ("CONNECT", "REQUEST"):
        monkeypatch.setattr(patience, question, FOR_EVER)
    with FakeBroker() as broker:
        broker.hung = True
        yield broker


async def test_neither_leaving_nor_quitting_nor_impatience_waits_for_a_hung_broker(
    hung: FakeBroker,
) -> None:
    access = ReadAccess(ConnectionSettings((hung.endpoint,)))
    console = console_on(diverged_incident(), access=access)
    partition = diverged_incident().rows[0].partition
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: not console.context.known.reading, "what is known")
        left = DiffScreen(console.context, partition)
        await console.push_screen(left)
        await until(pilot, lambda: hung.frames > 0, "a request")
        await pilot.press(*["d", "c", "escape", "n"] * 3)
        reading = [thread for thread in threading.enumerate() if thread.name.startswith("diff")]
        assert len(reading) <= 2
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(watch_of(console).asked) == 2, "a refresh beside it")
        await pilot.press("escape", "escape")
        await until(pilot, lambda: console.screen is not left, "the screen before")

        frames = hung.frames
        await console.push_screen(DiffScreen(console.context, partition))
        await until(pilot, lambda: hung.frames > frames, "another request")
        await shows(pilot, "Esc stops it.")
        await pilot.press("q")
    hung.wait_for(lambda: hung.open == 0, "the end of the connections")
