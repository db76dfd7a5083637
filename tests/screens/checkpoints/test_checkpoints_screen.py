"""The screen of checkpoints: every key, every state, what is said, and real files behind it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from breakglass.screens.checkpoints import columns, line_facts
from breakglass.screens.messages import CopyAsked
from breakglass.services.checkpoint.protocol.lineage import (
    CheckpointEvidence,
    Committing,
    GroupEvidence,
    TopicEvidence,
    WriterKind,
)
from breakglass.services.checkpoint.protocol.values import CopyId
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import CutDocument, Level
from breakglass.services.checkpoint.watch import (
    CheckpointLine,
    CheckpointPartitionLine,
    CheckpointWatch,
    Line,
)
from breakglass.services.checkpoint.watch import lines as lines_of
from breakglass.services.topic_backup.part import part_names
from breakglass.services.topic_backup.segment_index import ENTRY
from breakglass.services.topic_backup.segment_reader import MAGIC
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
from tests.unit.checkpoint.store.stores import POSITION, SUBJECTS, reserved

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


def failed(line: Line) -> list[str]:
    facts = (fact for fact in line_facts(line) if fact.label == "Failed")
    return ["".join(part.text for part in fact.parts) for fact in facts]


def test_equal_reasons_are_said_once_and_a_partition_under_way_has_that_of_the_whole(
    tmp_path: Path,
) -> None:
    store = reserved(reserved(BackupStore(str(tmp_path)), 1), 2)
    for subject in SUBJECTS:
        store.copies.fail(CopyId(1, subject.number, 0), "disk full")
    store.copies.begin(CopyId(2, 1, 0), POSITION, "1.0")
    store.fail_checkpoint(2, "group bank lags")
    one, two = (found for id in (1, 2) if (found := store.read(id)) is not None)
    line = CheckpointLine(store.address, one, opened=False)
    assert failed(line) == ["orders-0..2 (3 partitions): disk full"]
    part = CheckpointPartitionLine(store.address, two, two.partitions[0])
    assert failed(part) == ["group bank lags"]


def test_who_wrote_the_topics_and_what_a_better_promise_lacks_are_said(tmp_path: Path) -> None:
    store = reserved(BackupStore(str(tmp_path)), 1)
    topic = TopicEvidence(
        "orders", 3, 9, (WriterKind.IDEMPOTENT,), stamped=False, unstamped="orders-0 at offset 2"
    )
    group = GroupEvidence("billing", "classic", "Empty", ("orders",), Committing.PLAIN)
    positions = {subject.number: POSITION for subject in SUBJECTS}
    store.decide(1, CutDocument(1, positions, evidence=CheckpointEvidence((topic,), (group,))))
    found = store.read(1)
    assert found is not None
    said = [
        (fact.label, "".join(part.text for part in fact.parts))
        for fact in line_facts(CheckpointLine(store.address, found, opened=False))
    ]
    assert ("Written by", "orders: idempotent") in said
    assert ("Commits", "billing commits: plain") in said
    assert [text for label, text in said if label == "For more" and "billing" in text]


def test_a_copy_under_way_says_how_far_it_is(tmp_path: Path) -> None:
    store = reserved(BackupStore(str(tmp_path)), 1)
    store.copies.begin_all({CopyId(1, subject.number, 0): None for subject in SUBJECTS})
    store.decide(1, CutDocument(1, {subject.number: POSITION for subject in SUBJECTS}))
    segments = tmp_path / "contents" / "1" / "1" / "0" / "segments" / "orders"
    segments.mkdir(parents=True)
    records, index = part_names("run", 0, 0, 0)
    (segments / records).write_bytes(bytes(1_000))
    entries = (ENTRY.pack(offset, 1, 10) for offset in range(20, 40))
    (segments / index).write_bytes(MAGIC + b"".join(entries))
    (seen,) = CheckpointWatch((store.address,)).look()
    _, _, first, *_ = lines_of([seen], frozenset({(store.address, 1)}))
    told = ["".join(part.text for part in fact.parts) for fact in line_facts(first)]
    assert told[0] == "20 of <= 80 records so far, 1.0 kB of ~4.0 kB; cut at 100, 0 in transit"
    cells = {column.title: column.words(first).text for column in columns(0)}
    assert (cells["Copied"], cells["Size"], cells["Records"]) == ("25%", "1.0 kB", "20")
