"""Reads every replica of a cluster from the log directories of all its brokers.

Record batches are of format 2, in every compression.

Written from org.apache.kafka.common.record.DefaultRecordBatch and DefaultRecord. Every appended
record is in the file, whether or not it was flushed and whether or not the broker is alive.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import cramjam

HEADER = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, crc, attributes, last offset delta, first and newest
timestamp, producer id, producer epoch, first sequence, record count."""
BEFORE_LENGTH = 12
"""The length counts what follows it."""
AFTER_CRC = 21
"""The checksum is of what follows it: from the attributes on."""
MAGIC = 2
CODEC, TRANSACTIONAL, CONTROL = 0x07, 0x10, 0x20
XERIAL = b"\x82SNAPPY\x00"
XERIAL_HEADER = 16


class DamagedLog(Exception):
    """A log that is not what a broker writes: the campaign cannot judge by it."""


@dataclass(frozen=True, slots=True)
class HeldRecord:
    """One record, identified by epoch, offset, key and contents."""

    epoch: int
    offset: int
    key: bytes | None
    digest: str
    """Of key and value."""


@dataclass(frozen=True, slots=True)
class FolderLog:
    """What a replica's folder holds."""

    start: int
    end: int
    """Log end offset."""
    records: tuple[HeldRecord, ...]
    """By offset, without transaction markers; from the log start on."""
    places: frozenset[tuple[int, int]]
    """(leader epoch, offset) of every record and every marker."""
    epochs: tuple[tuple[int, int], ...]
    """(leader epoch, first offset) of what is written, oldest first."""
    undecided: frozenset[int] = frozenset()
    """Offsets of transactions that were aborted or have no end."""
    pending: frozenset[int] = frozenset()
    """Of these, the offsets of transactions that have no end."""

    def epoch_at(self, offset: int) -> int | None:
        """The leader epoch that wrote *offset*; None outside the log."""
        if not self.start <= offset < self.end:
            return None
        earlier = [epoch for epoch, first in self.epochs if first <= offset]
        return earlier[-1] if earlier else None


NO_LOG = FolderLog(0, 0, (), frozenset(), ())


def read_folder(folder: Path | None) -> FolderLog:
    """The log in a partition's folder; `NO_LOG` when there is none.

    Raises:
        DamagedLog: a batch of another format, or one whose checksum is wrong.
    """
    if folder is None or not folder.is_dir():
        return NO_LOG
    segments = sorted(folder.glob("*.log"))
    if not segments:
        return NO_LOG
    batches = [batch for segment in segments for batch in _batches(segment)]
    start = max(int(segments[0].stem), _checkpointed_start(folder))
    end = max([int(segments[-1].stem), *(batch.last + 1 for batch in batches)])
    kept = [batch for batch in batches if batch.last >= start]
    aborted, pending = _undecided(kept)
    return FolderLog(
        start,
        end,
        tuple(
            record
            for batch in kept
            if not batch.control
            for record in batch.records
            if record.offset >= start
        ),
        frozenset(
            (batch.epoch, record.offset)
            for batch in kept
            for record in batch.records
            if record.offset >= start
        ),
        _epochs(kept, start, _checkpointed_epochs(folder), end),
        frozenset(aborted | pending),
        frozenset(pending),
    )


@dataclass(frozen=True, slots=True)
class _Batch:
    epoch: int
    last: int
    control: bool
    committed: bool
    transactional: bool
    producer: int
    records: tuple[HeldRecord, ...]


def _batches(segment: Path) -> Iterator[_Batch]:
    data = segment.read_bytes()
    position = 0
    while position + HEADER.size <= len(data):
        size = BEFORE_LENGTH + HEADER.unpack_from(data, position)[1]
        if size <= BEFORE_LENGTH or position + size > len(data):
            return
        yield _batch(data[position : position + size], segment)
        position += size


def _batch(data: bytes, segment: Path) -> _Batch:
    first, _, epoch, magic, crc, attributes, delta, _, _, producer, _, _, count = (
        HEADER.unpack_from(data)
    )
    if magic != MAGIC:
        raise DamagedLog(f"{segment}: a batch of format {magic} at offset {first}")
    if crc32c(data[AFTER_CRC:]) != crc:
        raise DamagedLog(f"{segment}: the checksum of the batch at offset {first} is wrong")
    body = decompress(attributes & CODEC, data[HEADER.size :]) if count else b""
    control = bool(attributes & CONTROL)
    records = tuple(_records(body, count, epoch, first))
    # A marker's key is its version and its type, 1 for a commit (EndTransactionMarker).
    committed = control and any((record.key or b"")[2:4] == b"\x00\x01" for record in records)
    transactional = bool(attributes & TRANSACTIONAL)
    return _Batch(epoch, first + delta, control, committed, transactional, producer, records)


def decompress(codec: int, data: bytes) -> bytes:
    """The records of a batch; *codec* as in its attributes.

    Raises:
        DamagedLog: there is no such codec.
    """
    if codec == 0:
        return data
    if codec == 1:
        return bytes(cramjam.gzip.decompress(data))
    if codec == 2:
        return _snappy(data)
    if codec == 3:
        return bytes(cramjam.lz4.decompress(data))
    if codec == 4:
        return bytes(cramjam.zstd.decompress(data))
    raise DamagedLog(f"there is no compression {codec}")


def _snappy(data: bytes) -> bytes:
    """Java clients write blocks with lengths before them, librdkafka one raw block."""
    if not data.startswith(XERIAL):
        return bytes(cramjam.snappy.decompress_raw(data))
    parts, position = [], XERIAL_HEADER
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        parts.append(bytes(cramjam.snappy.decompress_raw(data[position : position + size])))
        position += size
    return b"".join(parts)


def _records(data: bytes, count: int, epoch: int, first: int) -> Iterator[HeldRecord]:
    position = 0
    for _ in range(count):
        length, body = _varint(data, position)
        _, at = _varint(data, body + 1)
        delta, at = _varint(data, at)
        key, at = _field(data, at)
        value, _ = _field(data, at)
        yield HeldRecord(epoch, first + delta, key, digest(key, value))
        position = body + length


def _field(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, position)
    return (None, at) if length < 0 else (data[at : at + length], at + length)


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


def digest(key: bytes | None, value: bytes | None) -> str:
    """What tells records of different contents apart."""
    text = b"|".join(b"-" if part is None else b"+" + part for part in (key, value))
    return hashlib.sha256(text).hexdigest()[:16]


def _undecided(batches: list[_Batch]) -> tuple[set[int], set[int]]:
    """Offsets of records of aborted transactions, and of those without an end."""
    aborted: set[int] = set()
    pending: dict[int, set[int]] = {}
    for batch in batches:
        if batch.control:
            ended = pending.pop(batch.producer, set())
            aborted |= set() if batch.committed else ended
        elif batch.transactional:
            offsets = {record.offset for record in batch.records}
            pending.setdefault(batch.producer, set()).update(offsets)
    return aborted, set().union(*pending.values())


def _epochs(
    batches: list[_Batch], start: int, checkpointed: dict[int, int], end: int
) -> tuple[tuple[int, int], ...]:
    """Where each epoch begins: by the broker's own list, which compaction leaves as it is."""
    found: dict[int, int] = {}
    for batch in batches:
        first = min((record.offset for record in batch.records), default=batch.last)
        found.setdefault(batch.epoch, max(start, first))
    for epoch, first in checkpointed.items():
        if first < end:
            found[epoch] = min(found.get(epoch, end), max(start, first))
    return tuple(sorted(found.items()))


def _checkpointed_epochs(folder: Path) -> dict[int, int]:
    """``epoch offset`` lines, after two."""
    try:
        lines = (folder / "leader-epoch-checkpoint").read_text("ascii").splitlines()[2:]
    except FileNotFoundError:
        return {}
    return {int(epoch): int(offset) for epoch, offset in (line.split() for line in lines)}


def _checkpointed_start(folder: Path) -> int:
    """The partition's line of ``topic partition offset``, after two; 0 without one."""
    try:
        lines = (folder.parent / "log-start-offset-checkpoint").read_text("utf-8").splitlines()[2:]
    except FileNotFoundError:
        return 0
    for line in lines:
        topic, partition, offset = line.split()
        if f"{topic}-{partition}" == folder.name:
            return int(offset)
    return 0


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli), as record batches have it."""
    value = 0xFFFFFFFF
    for byte in data:
        value = (value >> 8) ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


NAME = re.compile(r"^(.+)-(\d+)$")
METADATA = "__cluster_metadata"
TRIES = 5
"""A cleaner or a deletion may take a file away between its listing and its reading."""

Name = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class DiskReading:
    """What the disks held at one moment."""

    logs: Mapping[Name, Mapping[int, FolderLog]]
    """By partition, then by broker; brokers without a folder are left out."""
    readable: Mapping[Name, Collection[int]]
    """By partition, the brokers whose replica answered at that moment."""

    def held(self, name: Name) -> Mapping[int, FolderLog]:
        """The replicas of a partition."""
        return self.logs.get(name, {})

    def readable_logs(self, name: Name) -> dict[int, FolderLog]:
        """The replicas of a partition that answered."""
        answering = self.readable.get(name, ())
        return {broker: log for broker, log in self.held(name).items() if broker in answering}


def read_disks(
    log_dirs: Mapping[int, Sequence[Path]], awake: Collection[int], failed: Collection[Path] = ()
) -> DiskReading:
    """Read every folder of every broker.

    A replica counts as readable if its broker is *awake* and its directory is not *failed*.

    Raises:
        DamagedLog: a folder holds what no broker writes.
    """
    logs: dict[Name, dict[int, FolderLog]] = {}
    readable: dict[Name, set[int]] = {}
    for broker, folders in log_dirs.items():
        for log_dir in folders:
            for name, folder in _partitions(log_dir):
                logs.setdefault(name, {})[broker] = _settled(folder)
                if broker in awake and log_dir not in failed:
                    readable.setdefault(name, set()).add(broker)
    return DiskReading(logs, readable)


def _partitions(log_dir: Path) -> Iterator[tuple[Name, Path]]:
    for folder in sorted(log_dir.glob("*-*")) if log_dir.is_dir() else ():
        found = NAME.match(folder.name)
        if folder.is_dir() and found and found[1] != METADATA and "." not in folder.name:
            yield (found[1], int(found[2])), folder


def _settled(folder: Path) -> FolderLog:
    """The log in *folder*, read again where its files changed while they were read."""
    for _ in range(TRIES - 1):
        try:
            # Name, size and time of change of every file that a log is read from.
            beside = folder.parent / "log-start-offset-checkpoint"
            files = [*sorted(folder.glob("*.log")), folder / "leader-epoch-checkpoint", beside]
            stats = [(path.name, path.stat()) for path in files if path.exists()]
            return _read_once(
                folder, tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
            )
        except (FileNotFoundError, DamagedLog):
            continue
    return read_folder(folder)


@lru_cache(maxsize=4096)
def _read_once(folder: Path, signature: object) -> FolderLog:
    """The log in *folder*, read again only when its *signature* is another."""
    del signature
    return read_folder(folder)


def divergence(log: FolderLog, other: FolderLog) -> int:
    """The first offset at which two logs are of different epochs, or where the first ends."""
    end = min(log.end, other.end)
    start = max(log.start, other.start)
    bounds = sorted({first for _, first in (*log.epochs, *other.epochs) if start < first < end})
    for offset in (start, *bounds):
        if offset < end and log.epoch_at(offset) != other.epoch_at(offset):
            return offset
    return end
