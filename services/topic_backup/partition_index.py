"""Reads and writes a partition's index: the names of its segments and their start offsets.

::

    Entry =>
      NameLength  => int32
      Name        => UTF-8     the prefix of the segment's files, without _records
      StartOffset => int64

The index only saves a listing. Readers here list the folder, so an outdated index does no harm.
Source: PartitionIndexEntry.java of itadventurer/kafka-backup.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from breakglass.services.errors import DamagedBackup
from breakglass.services.topic_backup.folder import Folder, read_whole
from breakglass.services.topic_backup.layout import partition_index_name, segment_place
from breakglass.services.topic_backup.record import LENGTH
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, MAGIC, check_magic

START_OFFSET = struct.Struct(">q")

MAX_NAME_BYTES = 255
"""File systems do not allow longer names."""
MAX_INDEX_BYTES = 256 * 1024 * 1024
"""Maximum size of a partition index that is read: four million segments."""


class SegmentEntry(NamedTuple):
    """One segment."""

    prefix: str
    start_offset: int


def encode(entries: Iterable[SegmentEntry]) -> bytes:
    """The bytes of the whole file."""
    return MAGIC + b"".join(encode_entry(entry) for entry in entries)


def encode_entry(entry: SegmentEntry) -> bytes:
    """The bytes of one segment's entry."""
    name = entry.prefix.encode()
    return LENGTH.pack(len(name)) + name + START_OFFSET.pack(entry.start_offset)


def read(folder: Folder, partition: int) -> tuple[SegmentEntry, ...]:
    """The entries of the index of *partition*.

    Raises:
        DamagedBackup: bytes are not an entry, an entry is incomplete, or offsets do not rise.
        UnsupportedSchema: the file has another version of the format.
        StorageError: the file does not exist.
    """
    name = partition_index_name(partition)
    where = folder.where(name)
    with folder.open(name) as file:
        check_magic(file, where)
    return decode(read_whole(folder, name, MAX_INDEX_BYTES)[FIRST_POSITION:], where)


def decode(content: bytes, where: str) -> tuple[SegmentEntry, ...]:
    """The entries in *content*, which follows the magic byte.

    Raises:
        DamagedBackup: as `read`.
    """
    entries: list[SegmentEntry] = []
    at, latest = 0, -1
    while at < len(content):
        entry, after = _decode_entry(content, at, where)
        if entry.start_offset <= latest:
            reason = f"start offset {entry.start_offset} follows {latest}"
            raise DamagedBackup(where, FIRST_POSITION + at, reason)
        entries.append(entry)
        at, latest = after, entry.start_offset
    return tuple(entries)


def _decode_entry(content: bytes, at: int, where: str) -> tuple[SegmentEntry, int]:
    name_at = at + LENGTH.size
    if name_at > len(content):
        raise DamagedBackup(where, FIRST_POSITION + at, "the last entry is cut", torn=True)
    (size,) = LENGTH.unpack_from(content, at)
    if not 0 <= size <= MAX_NAME_BYTES:
        raise DamagedBackup(where, FIRST_POSITION + at, f"no name has {size} bytes")
    offset_at = name_at + size
    after = offset_at + START_OFFSET.size
    if after > len(content):
        raise DamagedBackup(where, FIRST_POSITION + at, "the last entry is cut", torn=True)
    (start_offset,) = START_OFFSET.unpack_from(content, offset_at)
    try:
        name = content[name_at:offset_at].decode()
    except UnicodeDecodeError:
        raise DamagedBackup(where, FIRST_POSITION + name_at, "the name is not UTF-8") from None
    if "/" in name or segment_place(name) is None:
        raise DamagedBackup(where, FIRST_POSITION + at, "the name is none of a segment")
    return SegmentEntry(name, start_offset), after
