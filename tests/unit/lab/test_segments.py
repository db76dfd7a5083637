"""The lab reads logs by itself; the batches here are written by kafka-python."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder

from breakglass.services.errors import LabError
from breakglass.services.lab.segments import EMPTY, read_log
from breakglass.services.model import EpochRange

LEADER_EPOCH = 12
MAGIC_BYTE = 16


def batch(first: int, offsets: Iterable[int], epoch: int, *, compression: int = 0) -> bytes:
    """A batch at *first* with records at these offsets from it."""
    builder = DefaultRecordBatchBuilder(2, compression, False, -1, -1, -1, 1 << 16)
    for offset in offsets:
        builder.append(offset, 1_000, b"key", b"v" * 99, [])
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


def test_epochs_follow_each_other_without_holes_and_torn_batches(
    partition: Path,
) -> None:
    segment(partition, 0, batch(0, range(60), 0), batch(60, (1, 39), 0))
    segment(partition, 100, batch(100, range(25), 2), batch(125, range(9), 2)[:-7])
    log = read_log(partition)
    assert (log.start, log.end) == (0, 125)
    assert log.epochs == (EpochRange(0, 0, 100), EpochRange(2, 100, 125))
    assert len(log.identities) == 60 + 2 + 25


def test_a_log_without_records_is_empty_where_it_is(partition: Path) -> None:
    assert read_log(None) == read_log(partition) == EMPTY
    segment(partition, 70)
    log = read_log(partition)
    assert (log.start, log.end, log.epochs) == (70, 70, ())


def test_records_below_the_log_start_are_gone_before_their_segment_is(partition: Path) -> None:
    segment(partition, 0, batch(0, range(10), 0), batch(10, range(10), 1))
    checkpoint = partition.parent / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n2\nother 0 3\norders 0 12\n")
    log = read_log(partition)
    assert log.start == 12
    assert log.epochs == (EpochRange(1, 12, 20),)
    assert log.identities == {(1, offset) for offset in range(12, 20)}


def test_a_compressed_batch_with_holes_or_an_old_format_is_refused(partition: Path) -> None:
    segment(partition, 0, batch(0, range(100), 0, compression=1))
    assert read_log(partition).end == 100
    old = bytearray(batch(0, range(3), 0))
    old[MAGIC_BYTE] = 1
    for made in (bytes(old), batch(0, (0, 50), 0, compression=1)):
        segment(partition, 0, made)
        with pytest.raises(LabError):
            read_log(partition)
