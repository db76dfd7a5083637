"""The committed offsets of consumer groups on one partition: one JSON object, group to offset.

Source: OffsetSink.java of itadventurer/kafka-backup, which writes a Java HashMap through Jackson.
The order of keys means nothing to readers; it is kept so that files compare byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from breakglass.services.errors import MalformedInput
from breakglass.services.topic_backup.folder import Folder, read_whole
from breakglass.services.topic_backup.layout import consumer_offsets_name

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A million groups."""
SMALLEST_TABLE = 16
"""Buckets of a new HashMap; they double when it is three quarters full."""


def encode(offsets: Mapping[str, int]) -> bytes:
    """*offsets* as Jackson writes them, in their order."""
    text = json.dumps(dict(offsets), ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"\\(u[0-9a-f]{4}|.)", _jackson_escape, text).encode()


def _jackson_escape(match: re.Match[str]) -> str:
    escaped = match[1]
    return f"\\u{escaped[1:].upper()}" if len(escaped) > 1 else match[0]


def decode(content: bytes, where: str) -> dict[str, int]:
    """The offsets in *content*; none in an empty file, as there is before the first flush.

    Raises:
        MalformedInput: anything but an object of whole numbers, with line and column.
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
    """The groups' offsets on *partition*, none when there is no file.

    Raises:
        MalformedInput: as `decode`.
        StorageError: it cannot be read, or is larger than any.
    """
    name = consumer_offsets_name(partition)
    if folder.size(name) is None:
        return {}
    return decode(read_whole(folder, name, MAX_FILE_BYTES), folder.where(name))


def update(folder: Folder, partition: int, offsets: Mapping[str, int]) -> None:
    """Write *offsets* over those of the same groups; other groups stay as they were."""
    held = read(folder, partition)
    merged = (
        {**held, **offsets} if held else {group: offsets[group] for group in hash_order(offsets)}
    )
    folder.replace(consumer_offsets_name(partition), [encode(merged)])


def hash_order(groups: Iterable[str]) -> list[str]:
    """*groups* in the order in which a Java HashMap lists them."""
    names = list(groups)
    buckets = SMALLEST_TABLE
    while len(names) > buckets * 3 // 4:
        buckets *= 2
    return sorted(names, key=lambda name: _java_hash(name) & (buckets - 1))


def _java_hash(text: str) -> int:
    """String.hashCode, with its upper half folded into the lower as HashMap does."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value ^ value >> 16
