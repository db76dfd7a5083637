"""Records of one source: paged, searched, marked, exported; damage and hostile content in place."""

from __future__ import annotations

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

from breakglass.screens.browse.paged_records import OneRecordScreen
from breakglass.screens.browse.records import RecordsScreen
from breakglass.screens.diff.pair_list import PairList
from breakglass.screens.messages import CopyAsked
from breakglass.screens.screenshot import hide_records
from breakglass.services.browse.schemas import Schemas
from breakglass.services.divergence.address import parse_address
from breakglass.services.divergence.entry import RecordEntry
from breakglass.services.divergence.pages import around
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.record import Record
from breakglass.services.topic_backup.segment_index import SegmentIndex
from tests.kit.waiting import DEADLINE_SECONDS
from tests.screens.browse.opened import (
    at_offset,
    browser,
    fill,
    idle,
    lines_of,
    order,
    orders,
    records_of,
    shown,
)
from tests.screens.consoles import Asked
from tests.screens.turns import hides, is_inert, line_with, lines, opens, shows, text, until
from tests.unit.browse.registry import registry
from tests.unit.browse.test_schemas import answers, avro_bytes
from tests.unit.divergence.test_log_source import tens, write
from tests.unit.topic_backup.backups import FIRST, RECORDS, back_up, overwrite, read

HOSTILE = "\x1b]0;owned\x07[bold red]x[/]\u202e\x9b2J"


@asynccontextmanager
async def reading(
    folder: Path, records: list[Record], size: tuple[int, int] = (80, 24), **how: Any
) -> AsyncIterator[Pilot[Any]]:
    """The records of a backup on screen."""
    topic = back_up(folder, records, **how)
    console = browser(folder)
    async with console.run_test(size=size, notifications=True) as pilot:
        await shown(pilot, parse_address(f"backup:{topic}/0"))
        yield pilot


async def to(pilot: Pilot[Any], offset: int) -> None:
    await until(pilot, lambda: at_offset(pilot.app) == offset, f"offset {offset}")


async def test_the_cursor_goes_through_all_of_it(tmp_path: Path) -> None:
    async with reading(tmp_path, orders(0, 2_000), max_segment_bytes=50_000) as pilot:
        await to(pilot, 0)
        assert "offsets 0 to 1,999" in text(pilot.app)
        for _ in range(12):
            await pilot.press("pagedown")
            await idle(pilot)
        assert (at_offset(pilot.app) or 0) > 150
        await pilot.press("end")
        await to(pilot, 1_999)
        await idle(pilot)
        await pilot.press("up", "k", "pageup")
        await idle(pilot)
        assert (at_offset(pilot.app) or 0) < 1_990
        await pilot.press("home")
        await to(pilot, 0)


async def test_more_is_held_than_the_next_page_and_the_bar_tells_where_that_is(
    tmp_path: Path,
) -> None:
    def bar() -> set[int]:
        return {at for at, line in enumerate(lines(pilot.app)) if line.rstrip().endswith("▐")}

    async with reading(tmp_path, orders(0, 2_000)) as pilot:
        pairs = pilot.app.screen.query_one(PairList)
        first = bar()
        for _ in range(10):
            await pilot.press("pagedown")
            await until(
                pilot,
                lambda: pairs.window.end - (at_offset(pilot.app) or 0) > pairs.size.height,
                "a page more than is shown",
            )
        await pilot.press("end")
        await to(pilot, 1_999)
        await idle(pilot)
        assert first
        assert max(first) < min(bar())


async def test_the_field_is_left_though_the_answer_takes_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = Event()

    def hang(*arguments: Any) -> Any:
        assert answered.wait(DEADLINE_SECONDS)
        return around(*arguments)

    async with reading(tmp_path, orders(0, 2_000)) as pilot:
        monkeypatch.setattr("breakglass.screens.diff.reader.around", hang)
        await fill(pilot, "g", "1999")
        await shows(pilot, "around offset 1,999")
        assert pilot.app.focused is pilot.app.screen.query_one(PairList)
        answered.set()
        await to(pilot, 1_999)


async def test_g_goes_to_an_offset_or_a_time(tmp_path: Path) -> None:
    async with reading(tmp_path, orders(0, 2_000)) as pilot:
        await fill(pilot, "g", "1,234")
        await to(pilot, 1_234)
        await idle(pilot)
        await fill(pilot, "g", "2023-11-15T00:00:00")
        await to(pilot, 107)
        await idle(pilot)
        await fill(pilot, "g", "yesterday")
        await shows(pilot, "is no time")
        await pilot.press("g", "escape", "g", "enter", "down")
        await to(pilot, 108)


async def test_a_search_leads_from_find_to_find_and_back(tmp_path: Path) -> None:
    records = orders(0, 1_000)
    for at in (400, 700):
        records[at] = order(at, value=b'{"deep": {"needle": [1, "found"]}}')
    async with reading(tmp_path, records) as pilot:
        await fill(pilot, "slash", "json:deep.needle[1]=found")
        await to(pilot, 400)
        await idle(pilot)
        await pilot.press("n")
        await to(pilot, 700)
        await idle(pilot)
        await pilot.press("n")
        await shows(pilot, "Nothing matches after")
        await pilot.press("N")
        await to(pilot, 400)
        await idle(pilot)
        await fill(pilot, "slash", "header:trace=t5")
        await shows(pilot, "Nothing matches after")
        await fill(pilot, "slash", "offset:x")
        await shows(pilot, "is no offset")
        await fill(pilot, "slash", "")
        await hides(pilot, "search:")


async def test_a_search_can_be_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_: Any, __: Any, ___: int, reading: Any, progress: Any) -> None:
        while True:
            reading.go_on()
            progress(77)
            time.sleep(0.01)

    async with reading(tmp_path, orders(0, 10)) as pilot:
        monkeypatch.setattr("breakglass.screens.browse.reader.next_match", endless)
        await fill(pilot, "slash", "x")
        await shows(pilot, "at offset 77. Esc stops it.")
        await pilot.press("escape")
        await shows(pilot, "Given up.")
        await idle(pilot)


async def test_marked_records_are_exported_as_lines_and_as_a_backup(tmp_path: Path) -> None:
    async with reading(tmp_path / "b", orders(0, 30)) as pilot:
        await pilot.press("x")
        assert isinstance(pilot.app.screen, RecordsScreen)
        await pilot.press("space", "space", "down", "space", "up", "space", "space")
        await shows(pilot, "3 marked")
        target = tmp_path / "some.jsonl"
        await fill(pilot, "x", str(target))
        await shows(pilot, "3 records written")
        kept = [line["offset"] for line in lines_of(target)]
        assert kept == [0, 1, 4]
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        folder = tmp_path / "some"
        await fill(pilot, "x", str(folder))
        await until(pilot, lambda: (folder / "orders").is_dir() and not pilot.app.screen.busy, "it")  # type: ignore[attr-defined]
        assert [record.offset for record in read(folder / "orders")] == [0, 1, 4]
        await fill(pilot, "x", str(target))
        await shows(pilot, "is there already")
        await pilot.press("u")
        await hides(pilot, "3 marked")


async def test_a_record_is_shown_whole_and_folded(tmp_path: Path) -> None:
    async with reading(tmp_path, orders(0, 3), (80, 30)) as pilot:
        await pilot.press("down", "enter")
        await opens(pilot, OneRecordScreen)
        await idle(pilot)
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
        await pilot.press("escape")
        await opens(pilot, RecordsScreen)


async def test_a_value_is_decoded_by_its_schema_and_shown_as_it_is_by_the_key(
    tmp_path: Path,
) -> None:
    records = [order(0, value=avro_bytes()), order(1, value=b"\0\0\0\0\x63rest")]
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


async def test_damage_is_a_line_with_its_place_and_the_rest_is_there(tmp_path: Path) -> None:
    topic = back_up(tmp_path / "b", orders(0, 60))
    with SegmentIndex(LocalFolder(topic), FIRST) as index:
        at = index[30].position
    # Its offset stays: where the record before it ends is proved by that.
    overwrite(topic / RECORDS, at + 8, b"\x7f" * 32)
    console = browser(tmp_path / "b")
    async with console.run_test(size=(120, 40)) as pilot:
        await shown(pilot, parse_address(f"backup:{topic}/0"))
        await pilot.press("n")
        await to(pilot, 30)
        await shows(pilot, "offset 30 cannot be read")
        await shows(pilot, f"from byte {at} left out")
        await shows(pilot, "no record that can be proved")
        await pilot.press("enter", "space", "down")
        assert at_offset(console) == 31
        assert isinstance(records_of(console).query_one(PairList).current.left, RecordEntry)  # type: ignore[union-attr]
        await pilot.press("n")
        await shows(pilot, "Nothing is damaged after")
        await pilot.press("N")
        await to(pilot, 30)


async def test_hostile_content_is_inert_and_bounded(tmp_path: Path) -> None:
    hostile = HOSTILE.encode() + b"A" * 3_000_000
    nested = b"[" * 200_000
    records = [
        order(0, key=hostile[:50], value=hostile, headers=((HOSTILE.encode(), hostile),)),
        order(1, value=nested),
        order(2, value=b'{"a": "' + HOSTILE.encode() + b'"}'),
    ]
    async with reading(tmp_path, records) as pilot:
        for _ in range(3):
            for _ in range(3):
                assert is_inert(pilot.app)
                await pilot.press("enter")
                await opens(pilot, OneRecordScreen)
                await idle(pilot)
                await pilot.press("z", "end")
                assert is_inert(pilot.app)
                await pilot.press("escape", "down")
            await pilot.press("home", "v")
            await idle(pilot)


async def test_a_log_folder_is_browsed_as_a_backup_is(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", 0, tens(0, 300))
    console = browser()
    async with console.run_test(size=(80, 24)) as pilot:
        await shown(pilot, parse_address(f"log:{tmp_path}/orders-0"))
        await pilot.press("end")
        await to(pilot, 299)
        asked = Asked(console, CopyAsked)
        await pilot.press("y")
        await until(pilot, lambda: asked.messages, "the copy")
        assert asked.messages[0].text == f"log:{tmp_path}/orders-0"


async def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    console = browser()
    async with console.run_test(size=(80, 24)) as pilot:
        await shown(pilot, parse_address(f"backup:{tmp_path}/none/0"))
        assert "holds no backup: check the address" in " ".join(text(console).split())
        assert "not opened" in text(console)
        await pilot.press("n", "N", "end", "home", "enter", "space", "c", "s", "x", "ctrl+r")
        await idle(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(console.screen, RecordsScreen), "the tree")


async def test_more_records_are_seen_when_it_is_read_again(tmp_path: Path) -> None:
    async with reading(tmp_path, orders(0, 10)) as pilot:
        back_up(tmp_path, orders(10, 20))
        assert line_with(pilot.app, " 6 ").split()[:4] == ["6", "-", "22:19:20", "user-6"]
        await pilot.press("down", "ctrl+r")
        await shows(pilot, "offsets 0 to 19")
        await idle(pilot)
        assert at_offset(pilot.app) == 1
