"""The screen of checkpoints: every key, every state, and real files behind it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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
from tests.screens.drawing import LOOKS, Drawn, Look, at_rest, stopped_clock
from tests.screens.test_journal import heard
from tests.screens.turns import lines, text, until

SIZE = (120, 40)


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return bank(tmp_path / "store")


@pytest.fixture
def watch(store: BackupStore) -> Canned:
    return canned(seen(store), unread())


async def test_the_newest_comes_first_with_its_state_and_level(watch: Canned) -> None:
    console = checkpoints_of(watch)
    async with console.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "ongoing" in text(console), "the checkpoints")
        shown = [line.split() for line in lines(console) if line.lstrip().startswith("▸")]
        assert [group[:4] for group in shown] == [
            ["▸5", "ongoing", "coordinated", "1/3"],
            ["▸4", "failed", "coordinated", "1/3"],
            ["▸3", "completed", "vector", "3/3"],
            ["▸2", "failed", "verified", "0/3"],
            ["▸1", "completed", "coordinated", "3/3"],
        ]


async def test_a_store_that_does_not_answer_keeps_no_other_from_being_seen(watch: Canned) -> None:
    console = checkpoints_of(watch)
    async with console.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "s3://far/bank" in text(console), "the other store")
        assert BANK in text(console)
        await pilot.press("end")
        await until(pilot, lambda: "no answer" in text(console), "the reason")


async def test_a_checkpoint_opens_to_its_partitions_and_closes(watch: Canned) -> None:
    console = checkpoints_of(watch)
    async with console.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "ongoing" in text(console), "the checkpoints")
        await pilot.press("down", "enter", "down", "down")
        await until(pilot, lambda: "bank-2" in text(console), "the partitions")
        await until(pilot, lambda: "tellers resumes at 102" in text(console), "the group")
        await pilot.press("left")
        await until(pilot, lambda: "bank-2" not in text(console), "them closed")
        await pilot.press("right")
        await until(pilot, lambda: "bank-2" in text(console), "them open again")


async def test_why_one_has_failed_is_told(watch: Canned) -> None:
    console = checkpoints_of(watch)
    async with console.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "ongoing" in text(console), "the checkpoints")
        await pilot.press("down", "down")
        await until(pilot, lambda: "retention was faster" in text(console), "a copy's reason")
        await pilot.press("down", "down")
        await until(pilot, lambda: "not drained in time" in text(console), "the reason of all")


async def test_a_vector_says_that_it_promises_nothing(watch: Canned) -> None:
    console = checkpoints_of(watch)
    async with console.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "ongoing" in text(console), "the checkpoints")
        await pilot.press("down", "down", "down")
        await until(pilot, lambda: "nothing is promised" in text(console), "the label")


@pytest.mark.parametrize("size", [SIZE, (80, 24)], ids=["wide", "80x24"])
async def test_what_was_verified_is_in_a_column_of_its_own(
    store: BackupStore, watch: Canned, size: tuple[int, int]
) -> None:
    taken(store, 6, Level.COORDINATED)
    copied(store, 6, 1, 2, 3)
    watch.stores[0] = seen(store)
    console = checkpoints_of(watch)
    async with console.run_test(size=size) as pilot:
        await until(pilot, lambda: "ongoing" in text(console), "the checkpoints")
        shown = {line.split()[0]: line for line in lines(console) if line.lstrip().startswith("▸")}
        assert " 5 min" in shown["▸1"]
        assert "damaged" in shown["▸3"]
        assert "never" in shown["▸6"]
        assert not any(word in shown["▸5"] for word in ("never", "damaged"))
        await pilot.press("down")
        await until(pilot, lambda: "checkpoint verify 6" in text(console), "how to verify it")
        await pilot.press("down", "down", "down", "enter", "down", "down")
        await until(pilot, lambda: "records is missing" in text(console), "what is damaged")


async def test_it_is_live(store: BackupStore, watch: Canned) -> None:
    console = checkpoints_of(watch)
    async with console.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "1/3" in text(console), "the checkpoints")
        taken(store, 6, Level.COORDINATED)
        copied(store, 6, 1, 2, 3)
        watch.stores[0] = seen(store)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "▸6" in text(console), "the new one")


async def test_a_real_folder_is_looked_at(store: BackupStore) -> None:
    console = checkpoints_of(CheckpointWatch((store.address,)))
    async with console.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "5 checkpoints" in text(console), "the store")


async def test_a_checkpoint_is_copied_as_json(watch: Canned) -> None:
    console = checkpoints_of(watch)
    async with console.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "ongoing" in text(console), "the checkpoints")
        with heard(console, CopyAsked) as asked:
            await pilot.press("down", "y")
            await until(pilot, lambda: asked, "the copy")
        assert json.loads(asked[0].text)["backupId"] == 5


async def test_without_a_store_it_says_how_to_name_one() -> None:
    console = checkpoints_of(canned())
    async with console.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "--store checkpoint:URL" in text(console), "how")


@pytest.mark.parametrize("look", LOOKS)
async def test_the_checkpoints_look_as_before(
    look: Look, watch: Canned, drawn_as_before: Drawn
) -> None:
    console = checkpoints_of(watch, theme=look.theme, clock=stopped_clock)
    async with console.run_test(size=look.size) as pilot:
        await until(pilot, lambda: "ongoing" in text(console), "the checkpoints")
        await pilot.press("down", "right", "down", "down")
        await until(pilot, lambda: "tellers resumes at" in text(console), "the partition")
        await at_rest(pilot)
        drawn_as_before(console)
