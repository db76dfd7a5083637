"""Records of one source or two: paged, searched, marked, exported, compared; damage in place."""

import json
import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from textual.pilot import Pilot

from breakglass.screens.browse.records import OneRecordScreen, RecordsScreen
from breakglass.screens.diff.pair_list import PairList
from breakglass.screens.diff.record_page import RecordView
from breakglass.screens.messages import CopyAsked
from breakglass.screens.screenshot import hide_records
from breakglass.services.browse.schemas import Schemas
from breakglass.services.divergence.address import parse_address
from breakglass.services.divergence.entry import RecordEntry
from breakglass.services.divergence.pages import around
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import records_name
from breakglass.services.topic_backup.segment_index import SegmentIndex
from tests.kit.waiting import DEADLINE_SECONDS
from tests.screens.browse.opened import (
    at_offset,
    browser,
    closed,
    edited,
    fill,
    idle,
    order,
    orders,
    pair,
    records_of,
    shown,
    to,
    under,
)
from tests.screens.consoles import Asked
from tests.screens.turns import flat, hides, is_inert, line_with, lines, opens, shows, text, until
from tests.unit.browse.registry import registry
from tests.unit.browse.test_schemas import answers, avro_bytes
from tests.unit.divergence.test_log_source import tens, write
from tests.unit.topic_backup.backups import FIRST, RECORDS, back_up, overwrite, read, segments
from tests.unit.topic_backup.shapes import run

HOSTILE = "\x1b]0;owned\x07[bold red]x[/]\u202e\x9b2J"


@asynccontextmanager
async def reading(
    folder: Path, records: list[Record], size: tuple[int, int] = (80, 24), **how: Any
) -> AsyncIterator[Pilot[Any]]:
    topic = back_up(folder, records, **how)
    console = browser(folder)
    async with console.run_test(size=size, notifications=True) as pilot:
        await shown(pilot, parse_address(f"backup:{topic}/0"))
        yield pilot


async def opens_record(pilot: Pilot[Any], *keys: str) -> None:
    await pilot.press(*keys, "enter")
    await opens(pilot, OneRecordScreen)
    await idle(pilot)


async def test_what_a_search_finds_is_marked_and_scrolled_to_in_the_list_and_in_its_record(
    tmp_path: Path,
) -> None:
    """It is far to the right on its line, and far down in its record."""
    lines = [*(f"line {number}" for number in range(50)), "a needle here", "the last"]
    found = order(30, value="\n".join(lines).encode())
    records = [found if one.offset == 30 else one for one in orders(0, 60)]

    def marked(pilot: Pilot[Any], kind: type[PairList | RecordView]) -> list[str]:
        shown = pilot.app.screen.query_one(kind)
        drawn = [part for y in range(shown.size.height) for part in shown.render_line(y)]
        return [part.text for part in drawn if part.text == "needle"]

    async with reading(tmp_path, records) as pilot:
        await fill(pilot, "slash", "value:needle")
        await to(pilot, 30)
        assert marked(pilot, PairList) == ["needle"]
        await pilot.press("enter")
        await opens(pilot, OneRecordScreen)
        await idle(pilot)
        await until(pilot, lambda: marked(pilot, RecordView), "the find")
        assert "line 2 " not in text(pilot.app)
        await pilot.press("escape")
        await fill(pilot, "slash", "")
        assert marked(pilot, PairList) == []


async def test_a_person_pages_through_all_of_it_and_what_comes_next_is_read_before(
    tmp_path: Path,
) -> None:
    def bar() -> set[int]:
        return {at for at, line in enumerate(lines(pilot.app)) if line.rstrip().endswith("▐")}

    async with reading(tmp_path, orders(0, 2_000), max_segment_bytes=50_000) as pilot:
        await to(pilot, 0)
        assert "offsets 0 to 1,999" in text(pilot.app)
        pairs = pilot.app.screen.query_one(PairList)
        first = bar()
        for _ in range(12):
            await pilot.press("pagedown")
            await until(
                pilot,
                lambda: pairs.window.end - (at_offset(pilot.app) or 0) > pairs.size.height,
                "a page more than is shown",
            )
        assert (at_offset(pilot.app) or 0) > 150
        await pilot.press("end")
        await to(pilot, 1_999)
        assert first
        assert max(first) < min(bar())
        await pilot.press("up", "k", "pageup")
        await idle(pilot)
        assert (at_offset(pilot.app) or 0) < 1_990
        await pilot.press("home")
        await to(pilot, 0)


async def test_a_person_goes_to_offsets_and_times_and_searches_and_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = Event()

    def hang(*arguments: Any) -> Any:
        assert answered.wait(DEADLINE_SECONDS)
        return around(*arguments)

    def endless(_: Any, __: Any, ___: int, reading: Any, progress: Any) -> None:
        while True:
            reading.go_on()
            progress(77)
            time.sleep(0.01)

    records = orders(0, 2_000)
    for at in (400, 700):
        records[at] = order(at, value=b'{"deep": {"needle": [1, "found"]}}')
    async with reading(tmp_path, records) as pilot:
        for given, offset in (("1,234", 1_234), ("2023-11-15T00:00:00", 107)):
            await fill(pilot, "g", given)
            await to(pilot, offset)
        await fill(pilot, "g", "yesterday")
        await shows(pilot, "is no time")
        await pilot.press("g", "escape", "g", "enter", "down")
        await to(pilot, 108)

        await fill(pilot, "slash", "json:deep.needle[1]=found")
        await to(pilot, 400)
        await pilot.press("n")
        await to(pilot, 700)
        await pilot.press("n")
        await shows(pilot, "Nothing matches after")
        await pilot.press("N")
        await to(pilot, 400)
        for search, answer in (
            ("header:trace=t5", "Nothing matches"),
            ("offset:x", "is no offset"),
        ):
            await fill(pilot, "slash", search)
            await shows(pilot, answer)
        await fill(pilot, "slash", "")
        await hides(pilot, "search:")

        monkeypatch.setattr("breakglass.screens.browse.records.next_match", endless)
        await fill(pilot, "slash", "x")
        await shows(pilot, "at offset 77. Esc stops it.")
        await pilot.press("escape")
        await shows(pilot, "Given up.")
        await idle(pilot)

        # The field is left though the answer takes its time.
        monkeypatch.setattr("breakglass.screens.diff.paged.around", hang)
        await fill(pilot, "g", "1999")
        await shows(pilot, "around offset 1,999")
        assert pilot.app.focused is pilot.app.screen.query_one(PairList)
        answered.set()
        await to(pilot, 1_999)


async def test_a_person_looks_into_a_record_exports_some_and_reads_again(tmp_path: Path) -> None:
    async with reading(tmp_path / "b", orders(0, 10), (80, 30)) as pilot:
        await opens_record(pilot, "down")
        for words in ("set by the producer", "trace: t1", "trace: null", "user-1"):
            assert words in text(pilot.app)
        await pilot.press("z")
        await shows(pilot, '"user": { ... 5 lines }')
        await pilot.press("z", "z", "z")
        await shows(pilot, '"new", "café" ]')
        await pilot.press("v")
        await shows(pilot, "as hex")
        hide_records(pilot.app, True)
        await pilot.pause()
        assert "user-1" not in text(pilot.app)
        hide_records(pilot.app, False)
        await pilot.press("escape")
        await opens(pilot, RecordsScreen)

        await pilot.press("home", "x")
        assert isinstance(pilot.app.screen, RecordsScreen)
        await pilot.press("space", "space", "down", "space", "up", "space", "space")
        await shows(pilot, "3 marked")
        target, folder = tmp_path / "some.jsonl", tmp_path / "some"
        await fill(pilot, "x", str(target))
        await shows(pilot, "3 records written")
        kept = [json.loads(line)["offset"] for line in target.read_text().splitlines()]
        assert kept == [0, 1, 4]
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        await fill(pilot, "x", str(folder))
        await until(pilot, lambda: (folder / "orders").is_dir() and not pilot.app.screen.busy, "it")  # type: ignore[attr-defined]
        assert [record.offset for record in read(folder / "orders")] == [0, 1, 4]
        await fill(pilot, "x", str(target))
        await shows(pilot, "is there already")
        await pilot.press("u")
        await hides(pilot, "3 marked")

        back_up(tmp_path / "b", orders(10, 20))
        assert line_with(pilot.app, "user-6").split()[:4] == ["6", "-", "22:19:20", "user-6"]
        await pilot.press("home", "down", "ctrl+r")
        await shows(pilot, "offsets 0 to 19")
        await to(pilot, 1)


async def test_a_log_folder_is_browsed_damage_stands_in_its_place_and_what_is_not_there_says_why(
    tmp_path: Path,
) -> None:
    write(tmp_path / "orders-0", 0, tens(0, 300))
    topic = back_up(tmp_path / "b", orders(0, 60))
    with SegmentIndex(LocalFolder(topic), FIRST) as index:
        at = index[30].position
    # Its offset stays: where the record before it ends is proved by that.
    overwrite(topic / RECORDS, at + 8, b"\x7f" * 32)
    console = browser()
    async with console.run_test(size=(120, 40)) as pilot:
        await shown(pilot, parse_address(f"log:{tmp_path}/orders-0"))
        await pilot.press("end")
        await to(pilot, 299)
        asked = Asked(console, CopyAsked)
        await pilot.press("a", "y")
        await until(pilot, lambda: len(asked.messages) == 2, "the copies")
        assert asked.messages[0].text == f"log:{tmp_path}/orders-0"
        assert json.loads(asked.messages[1].text)["offset"] == 299
        await closed(pilot)

        await shown(pilot, parse_address(f"backup:{topic}/0"))
        await pilot.press("n")
        await to(pilot, 30)
        for words in ("offset 30 cannot be read", f"from byte {at} left out"):
            await shows(pilot, words)
        await shows(pilot, "no record that can be proved")
        await pilot.press("enter", "space", "down")
        assert at_offset(console) == 31
        assert isinstance(records_of(console).query_one(PairList).current.left, RecordEntry)  # type: ignore[union-attr]
        await pilot.press("n")
        await shows(pilot, "Nothing is damaged after")
        await pilot.press("N")
        await to(pilot, 30)
        await closed(pilot)

        await shown(pilot, parse_address(f"backup:{tmp_path}/none/0"))
        assert "holds no backup: check the address" in flat(console)
        assert "not opened" in text(console)
        await pilot.press("n", "N", "end", "home", "enter", "space", "c", "s", "x", "ctrl+r")
        await idle(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(console.screen, RecordsScreen), "the tree")


async def test_values_are_decoded_by_their_schema_and_hostile_ones_are_inert_and_bounded(
    tmp_path: Path,
) -> None:
    hostile = HOSTILE.encode() + b"A" * 300_000
    records = [
        order(0, value=avro_bytes()),
        order(1, value=b"\0\0\0\0\x63rest"),
        order(2, key=hostile[:50], value=hostile, headers=((HOSTILE.encode(), hostile),)),
        order(3, value=b"[" * 200_000),
        order(4, value=b'{"a": "' + HOSTILE.encode() + b'"}'),
    ]
    topic = back_up(tmp_path, records)
    with registry(answers()) as url:
        console = browser()
        console.context = replace(console.context, schemas=Schemas(url))
        async with console.run_test(size=(80, 30)) as pilot:
            await shown(pilot, parse_address(f"backup:{topic}/0"))
            await pilot.press("enter")
            await shows(pilot, "as Avro, schema 1")
            assert '"note": "café"' in text(console)
            await pilot.press("v")
            await shows(pilot, "as text")
            assert '"note"' not in text(console)
            await pilot.press("v", "v", "v")
            await shows(pilot, "as Avro, schema 1")
            await pilot.press("escape", "down", "enter")
            await shows(pilot, "registry says Schema not found")
            assert "as text" in text(console)
            await pilot.press("escape")

            for _ in range(3):
                await pilot.press("home", "down", "down")
                for _ in range(3):
                    assert is_inert(console)
                    await opens_record(pilot)
                    await pilot.press("z", "end")
                    assert is_inert(console)
                    await pilot.press("escape", "down")
                await pilot.press("v")
                await idle(pilot)


async def test_two_sources_are_compared_from_difference_to_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = edited(tmp_path)
    async with browser().run_test(size=(120, 40)) as pilot:
        await shown(pilot, left, right)
        await shows(pilot, "< 1 only in A, > 10 only")
        for offset, words in (
            (100, "offset 100: different in value (v)"),
            (150, "offset 150: only in A"),
            (300, "offset 300: only in B"),
        ):
            await pilot.press("n")
            await to(pilot, offset)
            assert words in flat(pilot.app)
        await pilot.press("n")
        await shows(pilot, "Nothing differs after")
        await pilot.press("N")
        await to(pilot, 150)
        line = next(line for line in lines(pilot.app) if line.count("─") > 50)
        assert line.index("!") < line.index("<") < line.index(">")
        assert abs(line.index("!") - 120 * 100 / 310) < 4, "the map"
        await pilot.press("s")
        await shows(pilot, "< 10 only in A, > 1 only")
        await closed(pilot)

        await pilot.resize_terminal(80, 24)
        monkeypatch.setattr("breakglass.screens.browse.records.COUNTED_AT_ONCE", 0)
        await shown(pilot, left, right)
        assert "Not counted yet: c counts." in flat(pilot.app)
        await pilot.press("c", "c")
        await shows(pilot, "! 2 offsets hold")
        await pilot.press("n")
        await to(pilot, 100)
        await opens_record(pilot)
        assert "different in value" in flat(pilot.app)
        assert any(line.strip().startswith("!<") for line in lines(pilot.app))
        await pilot.press("z", "v", "escape")


async def test_kinds_of_sources_are_compared_and_equal_ones_have_no_differences(
    tmp_path: Path,
) -> None:
    write(tmp_path / "orders-0", 0, tens(0, 30))
    mixed = f"log:{tmp_path}/orders-0", f"backup:{back_up(tmp_path / 'm', run(0, 29))}/0"
    async with browser().run_test(size=(120, 40)) as pilot:
        await shown(pilot, *map(parse_address, mixed))
        await shows(pilot, "< 1 only in log, > 0")
        await closed(pilot)
        await shown(pilot, *pair(tmp_path, orders(0, 50), orders(0, 50)))
        await shows(pilot, "No differences.")
        await pilot.press("space", "x", "u")
        assert "marked" not in flat(pilot.app)


END = 200


async def test_a_segment_that_is_gone_is_seen_in_the_tree_and_the_rest_is_browsed(
    tmp_path: Path,
) -> None:
    topic = back_up(tmp_path, orders(0, END), max_segment_bytes=9_000)
    gone = topic / records_name(segments(topic)[1])
    gone.unlink()
    async with browser(tmp_path).run_test(size=(80, 24)) as pilot:
        await under(pilot, str(tmp_path), "orders", "0")
        await shows(pilot, "1 of them missing")
        await pilot.press("r")
        await until(pilot, lambda: at_offset(pilot.app) == 0, "the records")
        await pilot.press("n")
        await shows(pilot, " cannot be read: ")
        await until(pilot, lambda: gone.name in "".join(text(pilot.app).split()), gone.name)
        await pilot.press("end")
        await until(pilot, lambda: at_offset(pilot.app) == END - 1, "the last record")
