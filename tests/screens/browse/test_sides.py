"""Two sources side by side: differences, the map of them, and both sides' keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from breakglass.screens.browse.paged_records import OneRecordScreen
from breakglass.services.divergence.address import parse_address
from tests.screens.browse.opened import at_offset, browser, edited, idle, orders, pair, shown
from tests.screens.turns import flat, lines, opens, shows, until
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


async def to(pilot: Pilot[Any], offset: int) -> None:
    await until(pilot, lambda: at_offset(pilot.app) == offset, f"offset {offset}")
    await idle(pilot)


async def test_all_differences_are_counted_and_led_to(tmp_path: Path) -> None:
    async with comparing(tmp_path) as pilot:
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


async def test_a_record_of_both_sides_is_shown_beside_each_other(tmp_path: Path) -> None:
    async with comparing(tmp_path, (80, 24)) as pilot:
        await pilot.press("n")
        await to(pilot, 100)
        await pilot.press("enter")
        await opens(pilot, OneRecordScreen)
        await idle(pilot)
        assert "different in value" in flat(pilot.app)
        assert any(line.strip().startswith("!<") for line in lines(pilot.app))
        await pilot.press("z", "v", "escape")


async def test_counting_can_be_given_up_and_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("breakglass.screens.browse.records.COUNTED_AT_ONCE", 0)
    async with comparing(tmp_path) as pilot:
        assert "Not counted yet: c counts." in flat(pilot.app)
        await pilot.press("c", "c")
        await shows(pilot, "! 2 offsets hold")


async def test_kinds_of_sources_can_be_mixed(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", 0, tens(0, 30))
    topic = back_up(tmp_path / "b", run(0, 29))
    console = browser()
    async with console.run_test(size=(120, 40)) as pilot:
        left, right = f"log:{tmp_path}/orders-0", f"backup:{topic}/0"
        await shown(pilot, parse_address(left), parse_address(right))
        await shows(pilot, "< 1 only in log, > 0")


async def test_equal_backups_have_no_differences(tmp_path: Path) -> None:
    left, right = pair(tmp_path, orders(0, 50), orders(0, 50))
    console = browser()
    async with console.run_test(size=(80, 24)) as pilot:
        await shown(pilot, left, right)
        await shows(pilot, "No differences.")
        await pilot.press("space", "x", "u")
        assert "marked" not in flat(pilot.app)
