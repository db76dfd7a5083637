"""The lab reads logs by itself; the batches here are written by kafka-python."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from breakglass.services.errors import LabError
from breakglass.services.lab.segments import EMPTY, high_watermark_on_disk, read_log
from breakglass.services.model import EpochRange

LEADER_EPOCH = 12
MAGIC_BYTE = 16


def batch(
    first: int, offsets: Iterable[int], epoch: int, *, compression: int = 0, value: bytes = b"v"
) -> bytes:
    """A batch at *first* with records at these offsets from it."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 16,
    )
    for offset in offsets:
        builder.append(offset, 1_000, b"key", value, [])
    made = bytearray(builder.build())
    struct.pack_into(">q", made, 0, first)
    struct.pack_into(">i", made, LEADER_EPOCH, epoch)
    return bytes(made)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    return folder


def segment(partition: Path, base: int, *batches: bytes) -> Path:
    path = partition / f"{base:020}.log"
    path.write_bytes(b"".join(batches))
    return path


def test_epochs_follow_one_another_and_the_last_ends_at_the_log_end(partition: Path) -> None:
    segment(partition, 0, batch(0, range(60), 0), batch(60, range(40), 0))
    segment(partition, 100, batch(100, range(25), 2))
    log = read_log(partition)
    assert (log.start, log.end) == (0, 125)
    assert log.epochs == (EpochRange(0, 0, 100), EpochRange(2, 100, 125))
    assert len(log.identities) == 125


def test_a_folder_that_is_missing_or_empty_is_an_empty_log(partition: Path) -> None:
    assert read_log(None) == EMPTY
    assert read_log(partition) == EMPTY
    segment(partition, 0)
    assert read_log(partition) == EMPTY


def test_a_log_emptied_by_retention_still_starts_and_ends_where_it_did(partition: Path) -> None:
    segment(partition, 70)
    log = read_log(partition)
    assert (log.start, log.end, log.epochs) == (70, 70, ())


def test_holes_left_by_compaction_are_no_records(partition: Path) -> None:
    segment(partition, 0, batch(0, (1, 4, 300), 0, value=b"x" * 200))
    log = read_log(partition)
    assert log.identities == {(0, 1), (0, 4), (0, 300)}
    assert log.end == 301


def test_records_below_the_log_start_are_gone_before_their_segment_is(partition: Path) -> None:
    segment(partition, 0, batch(0, range(10), 0), batch(10, range(10), 1))
    checkpoint = partition.parent / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n2\nother 0 3\norders 0 12\n")
    log = read_log(partition)
    assert log.start == 12
    assert log.epochs == (EpochRange(1, 12, 20),)
    assert log.identities == {(1, offset) for offset in range(12, 20)}


def test_a_batch_that_was_being_written_when_the_broker_died_is_left_out(partition: Path) -> None:
    segment(partition, 0, batch(0, range(10), 0), batch(10, range(10), 0)[:-7])
    assert read_log(partition).end == 10


def test_a_format_that_the_lab_never_writes_is_refused(partition: Path) -> None:
    old = bytearray(batch(0, range(3), 0))
    old[MAGIC_BYTE] = 1
    segment(partition, 0, bytes(old))
    with pytest.raises(LabError):
        read_log(partition)


def test_a_compressed_batch_is_read_unless_it_has_holes(partition: Path) -> None:
    segment(partition, 0, batch(0, range(100), 0, compression=1, value=b"v" * 99))
    assert read_log(partition).end == 100
    segment(partition, 0, batch(0, (0, 50), 0, compression=1, value=b"v" * 99))
    with pytest.raises(LabError):
        read_log(partition)


def test_the_high_watermark_is_read_from_the_checkpoint(partition: Path) -> None:
    assert high_watermark_on_disk(partition) == 0
    (partition.parent / "replication-offset-checkpoint").write_text("0\n1\norders 0 78\n")
    assert high_watermark_on_disk(partition) == 78
