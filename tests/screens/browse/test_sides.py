"""Two sources side by side: differences, the map of them, and both sides' keys."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from breakglass.screens.browse.paged_records import OneRecordScreen
from breakglass.services.divergence.address import parse_address
from tests.screens.browse.opened import at_offset, browser, edited, idle, orders, pair, shown
from tests.screens.turns import lines, text, until
from tests.unit.divergence.test_log_source import tens, write
from tests.unit.topic_backup.backups import back_up
from tests.unit.topic_backup.shapes import run


@asynccontextmanager
async def comparing(folder: Path, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Pilot[Any]]:
    left, right = edited(folder)
    console = browser()
    async with console.run_test(size=size) as pilot:
        await shown(pilot, left, right)
        yield pilot


def told(pilot: Pilot[Any]) -> str:
    return " ".join(text(pilot.app).split())


def shows(pilot: Pilot[Any], words: str) -> Callable[[], bool]:
    return lambda: words in told(pilot)


async def to(pilot: Pilot[Any], offset: int) -> None:
    await until(pilot, lambda: at_offset(pilot.app) == offset, f"offset {offset}")
    await idle(pilot)


async def test_all_differences_are_counted_and_led_to(tmp_path: Path) -> None:
    async with comparing(tmp_path) as pilot:
        await until(
            pilot,
            shows(pilot, "! 2 offsets hold different records, < 1 only in A, > 10 only in B."),
            "the totals",
        )
        for offset, words in (
            (100, "offset 100: different in value (v)"),
            (150, "offset 150: only in A"),
            (300, "offset 300: only in B"),
        ):
            await pilot.press("n")
            await to(pilot, offset)
            assert words in told(pilot)
        await pilot.press("n")
        await until(pilot, shows(pilot, "Nothing differs after this record."), "the end")
        await pilot.press("N")
        await to(pilot, 150)


async def test_the_map_shows_where_they_differ(tmp_path: Path) -> None:
    async with comparing(tmp_path) as pilot:
        await until(pilot, shows(pilot, "! 2 offsets hold"), "the totals")
        line = next(line for line in lines(pilot.app) if line.count("─") > 50)
        assert line.index("!") < line.index("<") < line.index(">")
        assert abs(line.index("!") - 120 * 100 / 310) < 4


async def test_sides_are_exchanged(tmp_path: Path) -> None:
    async with comparing(tmp_path) as pilot:
        await pilot.press("s")
        await until(pilot, shows(pilot, "< 10 only in A, > 1 only in B."), "the totals")


async def test_a_record_of_both_sides_is_shown_beside_each_other(tmp_path: Path) -> None:
    async with comparing(tmp_path, (80, 24)) as pilot:
        await pilot.press("n")
        await to(pilot, 100)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, OneRecordScreen), "the record")
        await idle(pilot)
        assert "different in value" in told(pilot)
        assert any(line.strip().startswith("!<") for line in lines(pilot.app))
        await pilot.press("z", "v", "escape")


async def test_counting_can_be_given_up_and_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("breakglass.screens.browse.records.COUNTED_AT_ONCE", 0)
    async with comparing(tmp_path) as pilot:
        assert "Not counted yet: c counts." in told(pilot)
        await pilot.press("c", "c")
        await until(pilot, shows(pilot, "! 2 offsets hold"), "the totals")


async def test_kinds_of_sources_can_be_mixed(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", 0, tens(0, 30))
    topic = back_up(tmp_path / "b", run(0, 29))
    console = browser()
    async with console.run_test(size=(120, 40)) as pilot:
        left, right = f"log:{tmp_path}/orders-0", f"backup:{topic}/0"
        await shown(pilot, parse_address(left), parse_address(right))
        await until(pilot, shows(pilot, "< 1 only in log, > 0 only in backup."), "the totals")


async def test_equal_backups_have_no_differences(tmp_path: Path) -> None:
    left, right = pair(tmp_path, orders(0, 50), orders(0, 50))
    console = browser()
    async with console.run_test(size=(80, 24)) as pilot:
        await shown(pilot, left, right)
        await until(pilot, shows(pilot, "No differences."), "the totals")
        await pilot.press("space", "x", "u")
        assert "marked" not in told(pilot)
