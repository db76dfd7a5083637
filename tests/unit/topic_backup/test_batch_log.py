"""Batches given to a writer: records into segments, everything else into the batch log."""

from pathlib import Path

import pytest

from breakglass.services.errors import DamagedBackup
from breakglass.services.topic_backup.batch_log import BatchState, read_batch_log
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import batch_log_name
from breakglass.services.topic_backup.summary import EpochStart, Gap, GapReason, PartitionSummary
from breakglass.services.topic_backup.topic_writer import TopicWriter
from breakglass.services.topic_backup.verification import verify_files
from tests.kit.batches import decode_batches
from tests.kit.extent import some_of
from tests.unit.topic_backup.backups import ORDERS, append_to, committed, cut_to, overwrite, read
from tests.unit.topic_backup.batch_bytes import CONTROL, TRANSACTIONAL, batch, control_record
from tests.unit.topic_backup.shapes import run

LOG = batch_log_name(0)
TAIL = [
    batch(run(100, 103), epoch=4),
    batch(run(103, 105), epoch=4, flags=TRANSACTIONAL, producer=(70, 2, 11)),
    batch([control_record(105, 0)], epoch=5, flags=CONTROL | TRANSACTIONAL, producer=(70, 2, -1)),
    batch(run(106, 108), last_offset=109, epoch=6),
    batch([control_record(110, 1)], epoch=6, flags=CONTROL | TRANSACTIONAL, producer=(71, 0, -1)),
]
"""A log's tail: an aborted transaction, a compacted batch, and a marker at the very end."""


def rescue(root: Path, batches: list[bytes], *, commit: bool = True) -> Path:
    """Write *batches* as they came from a broker."""
    with TopicWriter(root, ORDERS) as writer:
        partition = writer.partition(0)
        for one in decode_batches(b"".join(batches), "b2, orders-0"):
            partition.append_batch(one)
        partition.sync()
        if commit:
            writer.commit()
    return root / "orders"


def partition_of(topic: Path) -> PartitionSummary:
    partition = committed(topic)
    assert partition is not None
    return partition


def states(topic: Path) -> list[BatchState]:
    log = partition_of(topic).batch_log
    assert log is not None
    return list(read_batch_log(LocalFolder(topic), 0, log))


def test_markers_and_holes_are_told_with_their_reason(tmp_path: Path) -> None:
    partition = partition_of(rescue(tmp_path, TAIL))
    assert partition.next_offset == 111
    assert read(tmp_path / "orders") == [*run(100, 105), *run(106, 108)]
    (segment,) = partition.segments
    assert segment.gaps == (
        Gap(105, 106, GapReason.CONTROL),
        Gap(108, 110, GapReason.UNKNOWN),
        Gap(110, 111, GapReason.CONTROL),
    )
    assert segment.epochs == (EpochStart(4, 100), EpochStart(6, 106))


@pytest.mark.parametrize("kept", range(len(TAIL)))
def test_a_writer_that_was_killed_is_followed_by_one_that_finishes(
    tmp_path: Path, kept: int
) -> None:
    """The log is ahead of the records: lines of batches that were not kept are cut off."""
    whole = partition_of(rescue(tmp_path / "unharmed", TAIL))
    rescue(tmp_path, TAIL[:kept])
    topic = rescue(tmp_path, TAIL, commit=False)
    records = topic / "segment_partition_000_from_offset_0000000000_records"
    index = topic / "segment_partition_000_from_offset_0000000000_index"
    lines = (topic / LOG).read_bytes()
    size = partition_of(topic)
    cut_to(records, size.segments[0].records_bytes)
    cut_to(index, 1 + 24 * size.segments[0].count)
    rescue(tmp_path, TAIL)
    assert (topic / LOG).read_bytes() == lines
    assert partition_of(topic).batch_log == whole.batch_log
    assert read(topic) == read(tmp_path / "unharmed" / "orders")


def test_lines_that_changed_since_the_commit_are_an_error(tmp_path: Path) -> None:
    topic = rescue(tmp_path, TAIL)
    overwrite(topic / LOG, 16, b"9")
    with pytest.raises(DamagedBackup):
        rescue(tmp_path, [])


def test_no_flipped_bit_of_a_line_is_believed(tmp_path: Path) -> None:
    """The lines decide which records of a tail were committed."""
    topic = rescue(tmp_path, TAIL)
    assert verify_files(LocalFolder(topic)).whole
    before = (topic / LOG).read_bytes()
    for bit in some_of(range(8 * len(before))):
        overwrite(topic / LOG, bit // 8, bytes([before[bit // 8] ^ (1 << bit % 8)]))
        with pytest.raises(DamagedBackup):
            states(topic)
        (topic / LOG).write_bytes(before)
    overwrite(topic / LOG, 16, b"9")
    (damage,) = verify_files(LocalFolder(topic)).damages
    assert damage.file.endswith(LOG)


def test_fewer_lines_than_committed_are_an_error_and_a_torn_one_is_cut_off(tmp_path: Path) -> None:
    topic = rescue(tmp_path, TAIL)
    append_to(topic / LOG, b'{"base_offset":111,')
    rescue(tmp_path, [])
    assert (topic / LOG).read_bytes().endswith(b"}\n")
    assert len(states(topic)) == 5
    cut_to(topic / LOG, 100)
    for reading in (lambda: states(topic), lambda: rescue(tmp_path, [])):
        with pytest.raises(DamagedBackup):
            reading()
