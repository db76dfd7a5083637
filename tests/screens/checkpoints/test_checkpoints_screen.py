"""The screen of checkpoints: every key, every state, and real files behind it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from breakglass.screens.messages import CopyAsked
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.watch import CheckpointWatch
from tests.screens.checkpoints.held import (
    BANK,
    Canned,
    bank,
    canned,
    checkpoints_of,
    copied,
    seen,
    taken,
    unread,
)
from tests.screens.consoles import Asked
from tests.screens.drawing import LOOKS, Drawn, Look, at_rest, stopped_clock
from tests.screens.turns import hides, lines, shows, text

SIZE = (120, 40)


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return bank(tmp_path / "store")


@pytest.fixture
def watch(store: BackupStore) -> Canned:
    return canned(seen(store), unread())


@asynccontextmanager
async def opened(
    watch: CheckpointWatch, words: str = "ongoing", size: tuple[int, int] = SIZE, **options: Any
) -> AsyncIterator[Pilot[Any]]:
    async with checkpoints_of(watch, **options).run_test(size=size) as pilot:
        await shows(pilot, words)
        yield pilot


async def test_each_line_says_what_has_become_of_it_opens_to_partitions_and_a_new_one_appears(
    store: BackupStore, watch: Canned
) -> None:
    async with opened(watch) as pilot:
        shown = [line.split() for line in lines(pilot.app) if line.lstrip().startswith("▸")]
        assert [group[:4] for group in shown] == [
            ["▸5", "ongoing", "coordinated", "1/3"],
            ["▸4", "failed", "coordinated", "1/3"],
            ["▸3", "completed", "vector", "3/3"],
            ["▸2", "failed", "verified", "0/3"],
            ["▸1", "completed", "coordinated", "3/3"],
        ]
        await pilot.press("down")
        for words in ("retention was faster", "nothing is promised", "not drained in time"):
            await pilot.press("down")
            await shows(pilot, words)
        assert BANK in text(pilot.app)
        assert "s3://far/bank" in text(pilot.app)
        await pilot.press("end")
        await shows(pilot, "no answer")

        asked = Asked(pilot.app, CopyAsked)
        await pilot.press("home", "down", "y", "enter", "down", "down")
        await shows(pilot, "tellers resumes at 102")
        await pilot.press("left")
        await hides(pilot, "bank-2")
        await pilot.press("right")
        await shows(pilot, "bank-2")
        assert json.loads(asked.messages[0].text)["backupId"] == 5
        await pilot.press("left")

        taken(store, 6, Level.COORDINATED)
        copied(store, 6, 1, 2, 3)
        watch.stores[0] = seen(store)
        await pilot.press("ctrl+r")
        await shows(pilot, "▸6")
        for size in (SIZE, (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.press("home")
            await at_rest(pilot)
            now = {line.split()[0]: line for line in lines(pilot.app) if line.lstrip()[:1] == "▸"}
            assert " 5 min" in now["▸1"]
            assert "damaged" in now["▸3"]
            assert "never" in now["▸6"]
            assert not any(word in now["▸5"] for word in ("never", "damaged"))
            await pilot.press("down")
            await shows(pilot, "checkpoint verify 6")
        await pilot.press("down", "down", "down", "enter", "down", "down")
        await shows(pilot, "records is missing")


async def test_a_real_folder_is_looked_at(store: BackupStore) -> None:
    async with opened(CheckpointWatch((store.address,)), "5 checkpoints"):
        pass


@pytest.mark.parametrize("look", LOOKS)
async def test_the_checkpoints_look_as_before(
    look: Look, watch: Canned, drawn_as_before: Drawn
) -> None:
    how = {"theme": look.theme, "clock": stopped_clock}
    async with opened(watch, size=look.size, **how) as pilot:  # type: ignore[arg-type]
        await pilot.press("down", "right", "down", "down")
        await shows(pilot, "tellers resumes at")
        await at_rest(pilot)
        drawn_as_before(pilot.app)
