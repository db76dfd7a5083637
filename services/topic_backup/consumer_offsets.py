"""Reads and writes the committed offsets of consumer groups on one partition, as a JSON object.

Source: OffsetSink.java of itadventurer/kafka-backup, which writes a Java HashMap through Jackson.
Readers ignore the order of keys; it is reproduced so that files are identical byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from breakglass.services.errors import MalformedInput
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.folder import Folder, read_whole
from breakglass.services.topic_backup.layout import consumer_offsets_name

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Enough for a million groups."""
SMALLEST_TABLE = 16
"""Buckets of a new HashMap; the number doubles when the map is three quarters full."""


def encode(offsets: Mapping[str, int]) -> bytes:
    """*offsets* as Jackson writes them, in their order."""
    text = json.dumps(dict(offsets), ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"\\(u[0-9a-f]{4}|.)", _jackson_escape, text).encode()


def _jackson_escape(match: re.Match[str]) -> str:
    escaped = match[1]
    return f"\\u{escaped[1:].upper()}" if len(escaped) > 1 else match[0]


def decode(content: bytes, where: str) -> dict[str, int]:
    """Parse *content*; an empty file, which exists before the first flush, has no offsets.

    Raises:
        MalformedInput: *content* is not an object of whole numbers; gives line and column.
    """
    if not content:
        return {}
    try:
        offsets = json.loads(content.decode())
    except json.JSONDecodeError as error:
        spot = f"line {error.lineno}, column {error.colno}"
        raise MalformedInput(f"{where}, {spot}: {error.msg}; {_REPLACE}") from None
    except (ValueError, RecursionError) as error:
        raise MalformedInput(f"{where}: no JSON ({error}); {_REPLACE}") from None
    if not isinstance(offsets, dict):
        raise MalformedInput(f"{where}: not an object of groups; {_REPLACE}")
    for group, offset in offsets.items():
        if type(offset) is not int:
            raise MalformedInput(f"{where}: the offset of group {group!r} is no number; {_REPLACE}")
    return offsets


_REPLACE = "restore the file from another copy, or empty it to do without its groups."


def read(folder: Folder, partition: int) -> dict[str, int]:
    """The groups' offsets on *partition*; empty if there is no file.

    Raises:
        MalformedInput: as `decode`.
        StorageError: the file cannot be read, or is too large.
    """
    name = consumer_offsets_name(partition)
    if folder.size(name) is None:
        return {}
    return decode(read_whole(folder, name, MAX_FILE_BYTES), folder.where(name))


def update(folder: Folder, partition: int, offsets: Mapping[str, int]) -> None:
    """Replace the offsets of the groups in *offsets*; other groups stay unchanged."""
    content = encoded(read(folder, partition), offsets)
    folder.replace(consumer_offsets_name(partition), [content])


def encoded(held: Mapping[str, int], offsets: Mapping[str, int]) -> bytes:
    """The file that had the groups *held*, with the *offsets* of groups."""
    new = {group: offsets[group] for group in hash_order(offsets)}
    return encode({**held, **(offsets if held else new)})


def hash_order(groups: Iterable[str]) -> list[str]:
    """Sort *groups* in the iteration order of a Java HashMap."""
    names = list(groups)
    buckets = SMALLEST_TABLE
    while len(names) > buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: _spread(java_hash(name)) & (buckets - 1))


def _spread(value: int) -> int:
    """*value* with the upper half folded into the lower half, as HashMap does."""
    return value ^ value >> 16


def java_hash(text: str) -> int:
    """String.hashCode, as an unsigned number of 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def log_of(key: str, topic: str, partitions: int) -> TopicPartition:
    """The partition of an internal *topic* that has a group or a transactional id."""
    # Utils.abs(hashCode) % partitions, where the sign bit alone becomes 0.
    value = java_hash(key)
    value = value - 2**32 if value >= 2**31 else value
    return TopicPartition(topic, (0 if value == -(2**31) else abs(value)) % partitions)
