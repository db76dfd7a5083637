"""Which segments can go, and a backup that is whole without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.errors import UsageError
from breakglass.services.topic_backup import partition_index
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import TopicIdentity, read_manifest
from breakglass.services.topic_backup.prune import PruneLimits, prunable, prune
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.record import Record, TimestampType
from breakglass.services.topic_backup.status import read_status
from breakglass.services.topic_backup.store.store import LocalStore
from breakglass.services.topic_backup.topic_writer import TopicWriter
from breakglass.services.topic_backup.verification import verify_files


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    """A topic of ten records of a second each, two in a segment."""
    with TopicWriter(tmp_path, TopicIdentity("t"), max_segment_bytes=50) as writer:
        for number in range(10):
            stamp = 1000 * number
            record = Record(number, TimestampType.CREATE, stamp, b"k", b"v" * 10)
            writer.partition(0).append(record)
        writer.commit()
    return LocalFolder(tmp_path / "t")


def offsets(folder: LocalFolder) -> list[int]:
    manifest = read_manifest(folder)
    committed = manifest.partition(0) if manifest else None
    return [record.offset for record in PartitionReader(folder, 0, committed).records()]


def test_segments_all_of_whose_records_are_old_can_go(folder: LocalFolder) -> None:
    gone = prunable(folder, PruneLimits(older_than_ms=5000), at_ms=9000)
    assert [(one.first_offset, one.last_offset) for one in gone] == [(0, 1), (2, 3)]


def test_the_newest_bytes_stay(folder: LocalFolder) -> None:
    size = verify_files(folder).bytes // 5
    gone = prunable(folder, PruneLimits(keep_bytes=3 * size))
    assert [one.first_offset for one in gone] == [0, 2]


def test_the_last_segment_always_stays(folder: LocalFolder) -> None:
    assert len(prunable(folder, PruneLimits(keep_bytes=0))) == 4


def test_nothing_goes_without_a_limit(folder: LocalFolder) -> None:
    assert prunable(folder, PruneLimits()) == ()


def test_what_stays_is_whole_and_goes_on(folder: LocalFolder) -> None:
    gone = prune(folder, PruneLimits(keep_bytes=0))
    assert len(gone) == 4
    assert offsets(folder) == [8, 9]
    assert verify_files(folder).whole
    assert [entry.start_offset for entry in partition_index.read(folder, 0)] == [8]
    with TopicWriter(folder.path.parent, TopicIdentity("t")) as writer:
        assert writer.partition(0).next_offset == 10
    assert prune(folder, PruneLimits(keep_bytes=0)) == ()


def test_a_backup_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no manifest"):
        prunable(LocalFolder.create(tmp_path / "t"), PruneLimits(keep_bytes=0))


def test_the_status_counts_what_is_there(folder: LocalFolder) -> None:
    (topic,) = read_status(LocalStore(folder.path.parent))
    (partition,) = topic.partitions
    assert (partition.first_offset, partition.last_offset, partition.next_offset) == (0, 9, 10)
    assert (partition.records, partition.segments, partition.damage) == (10, 5, ())
    assert (topic.generation, topic.commit, topic.verified_now) == (1, 1, False)
