"""Reads rescued records: topic backups in the format of Kafka Backup, without the product.

The format is that of azapps/kafka-backup: a version byte, then records of offset, timestamp type,
timestamp, key, value and headers, all big-endian.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from breakglass.bookkeeping.folders import Name
from breakglass.bookkeeping.log_files import digest

SEGMENT = re.compile(r"^segment_partition_(\d+)_from_offset_(\d+)_records$")
WITH_TIME = (0, 1)


@dataclass(frozen=True, slots=True)
class SavedRecord:
    """A record of a rescue."""

    offset: int
    key: bytes | None
    digest: str


def read_rescues(root: Path) -> dict[Name, frozenset[SavedRecord]]:
    """Everything that was saved under *root*, by partition, whichever replica it is from."""
    found: dict[Name, set[SavedRecord]] = {}
    for path in sorted(root.rglob("segment_partition_*_records")):
        named = SEGMENT.match(path.name)
        if named:
            topic = path.parent.name.split("~")[0]
            found.setdefault((topic, int(named[1])), set()).update(_records(path.read_bytes()))
    return {name: frozenset(records) for name, records in found.items()}


def _records(data: bytes) -> Iterator[SavedRecord]:
    if data[:1] != b"\x01":
        raise ValueError(f"a segment begins with {data[:1]!r}")
    position = 1
    while position < len(data):
        offset, kind = struct.unpack_from(">qi", data, position)
        position += 12 + (8 if kind in WITH_TIME else 0)
        key, position = _field(data, position)
        value, position = _field(data, position)
        (headers,) = struct.unpack_from(">i", data, position)
        position += 4
        for _ in range(2 * headers):
            _, position = _field(data, position)
        yield SavedRecord(offset, key, digest(key, value))


def _field(data: bytes, position: int) -> tuple[bytes | None, int]:
    (length,) = struct.unpack_from(">i", data, position)
    position += 4
    return (
        (None, position) if length < 0 else (data[position : position + length], position + length)
    )
