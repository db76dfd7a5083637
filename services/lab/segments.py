"""Reads a replica's log from its segment files, independently of the product's readers.

Record batch format v2 (org.apache.kafka.common.record.DefaultRecordBatch, DefaultRecord).
Every appended record is in the file, whether or not it was flushed or the broker is alive.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.errors import LabError
from breakglass.services.model import EpochRange

HEADER = struct.Struct(">qiibIhiqqqhii")
"""base offset, length, leader epoch, magic, crc, attributes, last offset delta, first and newest
timestamp, producer id, producer epoch, first sequence, record count."""
BEFORE_LENGTH = 12
"""The length counts what follows it."""
MAGIC = 2
COMPRESSED = 0x07
TRANSACTIONAL = 0x10
CONTROL = 0x20
START_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"


@dataclass(frozen=True, slots=True)
class SegmentBatch:
    """One record batch."""

    epoch: int
    first: int
    last: int
    offsets: tuple[int, ...]
    """Of the records present: compaction leaves gaps, and batches without any."""
    control: bool
    transactional: bool
    producer_id: int


@dataclass(frozen=True, slots=True)
class DiskLog:
    """A replica's log."""

    start: int
    """Log start offset, as far as it was written to disk."""
    end: int
    batches: tuple[SegmentBatch, ...]

    @property
    def identities(self) -> frozenset[tuple[int, int]]:
        """(leader epoch, offset) of every record from the log start on, markers among them."""
        return frozenset(
            (batch.epoch, offset)
            for batch in self.batches
            for offset in batch.offsets
            if offset >= self.start
        )

    @property
    def epochs(self) -> tuple[EpochRange, ...]:
        """What each leader epoch wrote; a range ends where the next begins, the last at LEO."""
        starts: dict[int, int] = {}
        for batch in self.batches:
            if batch.last >= self.start:
                starts.setdefault(batch.epoch, max(batch.first, self.start))
        bounds = [*starts.values(), self.end]
        return tuple(
            EpochRange(epoch, start, end)
            for (epoch, start), end in zip(starts.items(), bounds[1:], strict=True)
        )


EMPTY = DiskLog(0, 0, ())


def read_log(folder: Path | None) -> DiskLog:
    """The log in a partition's folder; empty when there is no folder.

    Raises:
        LabError: it holds batches of another format.
    """
    if folder is None:
        return EMPTY
    segments = sorted(folder.glob("*.log"))
    if not segments:
        return EMPTY
    batches = tuple(batch for segment in segments for batch in _batches(segment))
    start = max(int(segments[0].stem), _checkpointed(folder, START_CHECKPOINT))
    end = max([int(segments[-1].stem), *(batch.last + 1 for batch in batches)])
    return DiskLog(start, end, batches)


def _batches(segment: Path) -> Iterator[SegmentBatch]:
    data = segment.read_bytes()
    position = 0
    while position + HEADER.size <= len(data):
        size = BEFORE_LENGTH + HEADER.unpack_from(data, position)[1]
        if position + size > len(data):
            return
        yield _batch(data[position : position + size], segment)
        position += size


def _batch(data: bytes, segment: Path) -> SegmentBatch:
    first, _, epoch, magic, _, attributes, delta, _, _, producer, _, _, count = HEADER.unpack_from(
        data
    )
    if magic != MAGIC:
        raise LabError(f"{segment} holds a batch of format {magic}: the lab reads format 2 only.")
    return SegmentBatch(
        epoch=epoch,
        first=first,
        last=first + delta,
        offsets=_offsets(data, first, delta, count, attributes, segment),
        control=bool(attributes & CONTROL),
        transactional=bool(attributes & TRANSACTIONAL),
        producer_id=producer,
    )


def _offsets(
    data: bytes, first: int, delta: int, count: int, attributes: int, segment: Path
) -> tuple[int, ...]:
    if count == delta + 1:
        return tuple(range(first, first + count))
    if attributes & COMPRESSED:
        raise LabError(f"{segment} is compacted and compressed: the lab cannot read both.")
    return tuple(first + delta for delta in _offset_deltas(data, count))


def _offset_deltas(data: bytes, count: int) -> Iterator[int]:
    position = HEADER.size
    for _ in range(count):
        length, body = _varint(data, position)
        _, after_time = _varint(data, body + 1)
        delta, _ = _varint(data, after_time)
        yield delta
        position = body + length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A zigzag number and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position


def high_watermark_on_disk(folder: Path) -> int:
    """The high watermark that a broker would start with, killed now; 0 when it wrote none."""
    return _checkpointed(folder, HIGH_WATERMARK_CHECKPOINT)


def _checkpointed(folder: Path, file: str) -> int:
    """A partition's offset in a checkpoint: ``topic partition offset`` lines, after two."""
    checkpoint = folder.parent / file
    if not checkpoint.exists():
        return 0
    for line in checkpoint.read_text(encoding="utf-8").splitlines()[2:]:
        topic, partition, offset = line.split()
        if f"{topic}-{partition}" == folder.name:
            return int(offset)
    return 0
