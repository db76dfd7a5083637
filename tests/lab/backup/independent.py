"""What a client and a parser of their own read: neither shares code with what they test."""

import hashlib
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
)

from breakglass.services.lab.cluster import Cluster
from tests.lab.backup.producing import committed_messages

UNSTAMPED = -1
KINDS = {TIMESTAMP_NOT_AVAILABLE: UNSTAMPED, TIMESTAMP_CREATE_TIME: 0, TIMESTAMP_LOG_APPEND_TIME: 1}
"""What the format calls each kind of timestamp."""


class Content(NamedTuple):
    """A record without its offset."""

    timestamp_type: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def delivered(cluster: Cluster, topic: str, partition: int) -> list[tuple[int, Content]]:
    """The committed records of a partition with their offsets, as librdkafka delivers them."""
    found = []
    for message in committed_messages(cluster, topic, partition):
        kind, stamp = message.timestamp()
        headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
        content = Content(
            KINDS[kind],
            UNSTAMPED if kind == TIMESTAMP_NOT_AVAILABLE else stamp,
            message.key(),
            message.value(),
            tuple((name.encode(), value) for name, value in headers),
        )
        found.append((cast("int", message.offset()), content))
    return found


def contents(cluster: Cluster, topic: str, partition: int = 0) -> list[Content]:
    """The same without offsets."""
    return [content for _, content in delivered(cluster, topic, partition)]


def stored(folder: Path, partition: int) -> list[tuple[int, Content]]:
    """Every record that lies in the segments of a partition, in their order."""
    return [
        record
        for path in _segments(folder, partition)
        for record in _parsed(path.read_bytes(), path)
    ]


def committed(folder: Path, partition: int) -> list[tuple[int, Content]]:
    """The same of what the manifest speaks for, whose bytes have to be those it names."""
    manifest = folder / "breakglass_manifest.json"
    if not manifest.exists():
        return []
    found: list[tuple[int, Content]] = []
    for part in json.loads(manifest.read_bytes())["partitions"]:
        for one in part["segments"] if part["partition"] == partition else []:
            path = folder / f"{one['prefix']}_records"
            content = path.read_bytes()[: one["records_bytes"]]
            assert hashlib.sha256(content).hexdigest() == one["sha256"], path
            found += _parsed(content, path)
    return found


def _segments(folder: Path, partition: int) -> list[Path]:
    named = re.compile(r"segment_partition_(\d+)_from_offset_(\d+)_records")
    found = [(match, path) for path in folder.iterdir() if (match := named.fullmatch(path.name))]
    return [
        one for _, one in sorted((int(m[2]), one) for m, one in found if int(m[1]) == partition)
    ]


def _parsed(data: bytes, path: Path) -> Iterator[tuple[int, Content]]:
    assert data[:1] == b"\x01", path
    cursor = _Cursor(data, 1)
    while cursor.at < len(data):
        offset, kind = cursor.take(">qi")
        (stamp,) = (UNSTAMPED,) if kind == UNSTAMPED else cursor.take(">q")
        key, value = cursor.content(), cursor.content()
        (count,) = cursor.take(">i")
        headers = tuple((cast("bytes", cursor.content()), cursor.content()) for _ in range(count))
        yield offset, Content(kind, stamp, key, value, headers)


class _Cursor:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def take(self, form: str) -> tuple[Any, ...]:
        self.at += struct.calcsize(form)
        return struct.unpack_from(form, self._data, self.at - struct.calcsize(form))

    def content(self) -> bytes | None:
        (size,) = self.take(">i")
        if size < 0:
            return None
        assert self.at + size <= len(self._data)
        self.at += size
        return self._data[self.at - size : self.at]
