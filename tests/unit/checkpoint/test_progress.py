"""How far copies are, by the files that they have written so far."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.checkpoint.progress import SoFar, so_far, whole_size
from breakglass.services.checkpoint.protocol.values import CopyId
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import CutDocument
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.topic_backup.layout import records_name, segment_index_name, segment_prefix
from breakglass.services.topic_backup.part import part_names
from breakglass.services.topic_backup.segment_index import ENTRY
from breakglass.services.topic_backup.segment_reader import MAGIC
from tests.unit.checkpoint.store.stores import POSITION, SUBJECTS, completed, reserved

FIRST = 40
"""The first offset of each copy."""


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    """Checkpoint 1 is being copied by node 0: begun, decided, and nothing written yet."""
    store = reserved(BackupStore(str(tmp_path)), 1)
    store.start(1, {})
    store.copies.begin_all({CopyId(1, subject.number, 0): None for subject in SUBJECTS})
    store.decide(1, CutDocument(1, {subject.number: POSITION for subject in SUBJECTS}))
    return store


def found_in(store: BackupStore) -> StoredCheckpoint:
    found = store.read(1)
    assert found is not None
    return found


def written(store: BackupStore, names: tuple[str, str], first: int, count: int) -> None:
    """A segment of partition 1 with so many records of 10 bytes, as it grows."""
    folder = Path(store.address, "contents", "1", "1", "0", "segments", "orders")
    folder.mkdir(parents=True, exist_ok=True)
    records, index = names
    (folder / records).write_bytes(MAGIC + bytes(10) * count)
    entries = (ENTRY.pack(first + at, 1 + 10 * at, 10) for at in range(count))
    (folder / index).write_bytes(MAGIC + b"".join(entries))


def test_nothing_is_written_yet(store: BackupStore) -> None:
    assert so_far(store, found_in(store))[1] == SoFar(0, 0, None)
    assert SoFar(0, 0, None).bytes_expected is None


def test_what_tasks_have_written_counts_before_it_has_its_place(store: BackupStore) -> None:
    written(store, part_names("run", 0, 0, 0), FIRST, 15)
    found = so_far(store, found_in(store))
    assert found[1] == SoFar(15, 151, POSITION - FIRST)
    assert found[1].bytes_expected == 151 * (POSITION - FIRST) // 15
    assert found[2].records == 0


def test_segments_in_their_places_and_those_under_way_are_added(store: BackupStore) -> None:
    prefix = segment_prefix(0, FIRST)
    written(store, (records_name(prefix), segment_index_name(prefix)), FIRST, 15)
    written(store, part_names("run", 1, 0, 0), FIRST + 15, 5)
    assert so_far(store, found_in(store))[1] == SoFar(20, 202, POSITION - FIRST)


def test_how_much_there_will_be_is_unknown_before_it_is_decided(tmp_path: Path) -> None:
    store = reserved(BackupStore(str(tmp_path)), 1)
    store.copies.begin_all({CopyId(1, subject.number, 0): None for subject in SUBJECTS})
    written(store, part_names("run", 0, 0, 0), FIRST, 3)
    assert so_far(store, found_in(store))[1] == SoFar(3, 31, None)


def test_half_an_entry_is_no_record(store: BackupStore) -> None:
    written(store, part_names("run", 0, 0, 0), FIRST, 0)
    folder = Path(store.address, "contents", "1", "1", "0", "segments", "orders")
    (folder / part_names("run", 0, 0, 0)[1]).write_bytes(MAGIC + bytes(ENTRY.size - 1))
    assert so_far(store, found_in(store))[1] == SoFar(0, 1, None)


def test_a_failed_checkpoint_has_nothing_under_way(store: BackupStore) -> None:
    store.fail_checkpoint(1, "group bank lags")
    assert so_far(store, found_in(store)) == {}


def test_what_is_not_copied_has_no_size(store: BackupStore) -> None:
    assert whole_size(found_in(store)) is None
    completed(store, 2)
    found = store.read(2)
    assert found is not None
    assert whole_size(found) == sum(
        len(f"segment of {CopyId(2, number, 0)}") for number in (1, 2, 3)
    )
