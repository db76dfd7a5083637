"""Segments that tasks wrote, put in place: names, indexes, the commit, and what a kill leaves."""

import hashlib
from pathlib import Path
from uuid import UUID

import pytest

from breakglass.services.errors import UsageError, WrongCluster
from breakglass.services.pipeline.backup import known_damages
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.topic_backup.assembler import TopicAssembler
from breakglass.services.topic_backup.catalog import held_topics
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import (
    MANIFEST,
    records_name,
    segment_index_name,
    segment_prefix,
)
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.notes import note_verified
from breakglass.services.topic_backup.part import (
    Addition,
    Missing,
    NewSegment,
    SegmentPart,
    part_names,
)
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.segment_index import (
    IndexedRecord,
    encode_entry,
    read_partition_index,
)
from breakglass.services.topic_backup.store.store import LocalStore
from breakglass.services.topic_backup.summary import EpochStart
from breakglass.services.topic_backup.verification import is_older, verify_files
from tests.unit.topic_backup.backups import offsets

ORDERS = TopicIdentity("orders", "cluster", UUID(int=1))
EMPTY = Missing()


def record(offset: int) -> Record:
    return Record(offset, TimestampType.CREATE, offset, b"k", b"v%d" % offset)


def part(folder: LocalFolder, start: int, end: int, attempt: int = 0) -> SegmentPart:
    """Records *start* to *end* as a task writes them."""
    records, index = part_names("run", attempt, 0, start)
    content, entries = b"\x01", b"\x01"
    for offset in range(start, end):
        encoded = encode(record(offset))
        entries += encode_entry(IndexedRecord(offset, len(content), len(encoded)))
        content += encoded
    (folder.path / records).write_bytes(content)
    (folder.path / index).write_bytes(entries)
    digest = hashlib.sha256(content).hexdigest()
    last = end - 1
    return SegmentPart(
        0, records, index, end - start, start, last, start, last, last, len(content), digest
    )


def add(assembler: TopicAssembler, start: int, end: int, gap: Missing = EMPTY) -> None:
    """Put records *start* to *end* in place, behind *gap*."""
    new = NewSegment(part(assembler.folder, start, end), gap)
    assembler.add([Addition(0, [new], EMPTY, end)])


def test_parts_become_segments_and_a_commit(tmp_path: Path) -> None:
    with TopicAssembler(tmp_path, ORDERS, max_segment_bytes=100) as assembler:
        assert assembler.changed
        folder = assembler.folder
        parts = [NewSegment(part(folder, 5, 8)), NewSegment(part(folder, 8, 12))]
        assembler.add([Addition(0, parts, EMPTY, 12)])
        assembler.commit()
    names = [entry.prefix for entry in read_partition_index(folder, 0)]
    assert names == [
        "segment_partition_000_from_offset_0000000000",
        "segment_partition_000_from_offset_0000000008",
    ]
    assert offsets(folder) == list(range(5, 12))
    assert verify_files(folder).whole
    with TopicAssembler(tmp_path, ORDERS) as again:
        again.partition(0)
        assert not again.changed


def test_b29_a_run_vouches_for_no_damage_that_it_writes_behind(tmp_path: Path) -> None:
    with TopicAssembler(tmp_path / "orders", ORDERS) as assembler:
        add(assembler, 0, 10)
        assembler.commit()
    (records,) = (tmp_path / "orders").glob("*_records")
    content = bytearray(records.read_bytes())
    content[-1] ^= 1
    records.write_bytes(content)
    with TopicAssembler(tmp_path / "orders", ORDERS) as assembler:
        add(assembler, 10, 20)
        assembler.commit()
        assert len(assembler.damages) == 1
        assert list(known_damages(assembler))
    found = verify_files(assembler.folder)
    assert (len(found.damages), found.segments, found.records) == (1, 2, 20)


def test_a_commit_over_a_lost_manifest_is_not_older_than_what_was_verified(tmp_path: Path) -> None:
    for start in (0, 10):
        with TopicAssembler(tmp_path / "orders", ORDERS) as assembler:
            add(assembler, start, start + 10)
            assembler.commit()
    note_verified(assembler.folder, 2, "files", None, whole=True)
    (tmp_path / "orders" / MANIFEST).unlink()
    with TopicAssembler(tmp_path / "orders", ORDERS) as assembler:
        assert list(known_damages(assembler))
        assembler.partition(0)
        assembler.commit()
    assert not is_older(assembler.folder, assembler.committed)


def test_what_was_put_in_place_and_not_committed_is_taken_back(tmp_path: Path) -> None:
    """By the next run its log may be another one: a topic created anew, or cut."""
    with TopicAssembler(tmp_path, ORDERS) as assembler:
        add(assembler, 0, 4)
        assembler.commit()
        add(assembler, 4, 9)
    with TopicAssembler(tmp_path, ORDERS) as again:
        assert again.partition(0).next_offset == 4
        add(again, 4, 6)
        again.commit()
    assert offsets(LocalFolder(tmp_path)) == list(range(6))
    assert verify_files(LocalFolder(tmp_path)).whole


def test_a_first_run_that_was_killed_leaves_no_backup(tmp_path: Path) -> None:
    """Not even one of the original's, which have no manifest either."""
    with TopicAssembler(tmp_path / "orders", ORDERS) as assembler:
        assembler.partition(1)
        add(assembler, 0, 4)
    with pytest.raises(UsageError, match="holds no backup"):
        held_topics(LocalStore(tmp_path))
    anew = TopicIdentity("orders", "cluster", UUID(int=2))
    with TopicAssembler(tmp_path / "orders", anew) as again:
        assert again.partition(0).next_offset is None
        again.commit()
    assert offsets(LocalFolder(tmp_path / "orders")) == []


def test_what_the_original_wrote_behind_a_commit_is_taken_up_and_stays(tmp_path: Path) -> None:
    """Also where the run that took it up is killed. Which epochs wrote it is not known."""
    history = (EpochStart(3, 0),)
    with TopicAssembler(tmp_path, ORDERS) as assembler:
        new = NewSegment(part(assembler.folder, 0, 4), epochs=history)
        assembler.add([Addition(0, [new], EMPTY, 4, 3)])
        assembler.commit()
    # Go on with the first segment of partition 0 as the original's connector does.
    prefix = segment_prefix(0, 0)
    records, index = (
        assembler.folder.path / records_name(prefix),
        assembler.folder.path / segment_index_name(prefix),
    )
    for offset in range(4, 7):
        encoded = encode(record(offset))
        entry = encode_entry(IndexedRecord(offset, records.stat().st_size, len(encoded)))
        for path, content in ((records, encoded), (index, entry)):
            with path.open("ab") as file:
                file.write(content)
    for _ in range(2):
        with TopicAssembler(tmp_path, ORDERS) as again:
            held = again.partition(0)
            assert (held.next_offset, held.end_epoch) == (7, None)
            assert held.segments[0].epochs == ()
            add(again, 7, 9)
    with TopicAssembler(tmp_path, ORDERS) as last:
        last.partition(0)
        last.commit()
    assert offsets(LocalFolder(tmp_path)) == list(range(7))
    assert verify_files(LocalFolder(tmp_path)).as_committed
    assert [(one.start, one.end) for one in last.partition(0).unproved] == [(4, 7)]


def test_a_folder_of_another_topic_is_refused(tmp_path: Path) -> None:
    with TopicAssembler(tmp_path, ORDERS) as assembler:
        assembler.commit()
    with pytest.raises(UsageError):
        TopicAssembler(tmp_path, TopicIdentity("orders", "cluster", UUID(int=2)))
    with pytest.raises(WrongCluster):
        TopicAssembler(tmp_path, TopicIdentity("orders", "another", UUID(int=1)))
