"""Reads the records of one segment's records file, in order and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import BinaryIO, NamedTuple

from breakglass.services.errors import DamagedBackup, UnsupportedSchema
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.folder import Folder, storage_errors
from breakglass.services.topic_backup.record import (
    MAX_RECORD_BYTES,
    NeedMore,
    UnreadableRecord,
    decode,
)

MAGIC = b"\x01"
"""First byte of records files, segment indexes and partition indexes."""
FIRST_POSITION = len(MAGIC)
CHUNK_BYTES = 1024 * 1024


class Proof(StrEnum):
    """Why bytes are accepted as a record that was written."""

    COMMITTED = "the segment has the bytes that were committed"
    INDEX = "the index names each record at its place"
    BEHIND_STRAY = "the index names where each record ends, behind stray bytes"
    LAST = "the index names it, and the bytes behind it begin no record"
    SHIFTED = "the index names each record, all of them at another place than it says"
    BETWEEN = "records fill the bytes between two that the index names"
    WALKED = "each record ends where the next begins"


class FoundRecord(NamedTuple):
    """A record, its place in the file, and why it is accepted."""

    record: Record
    position: int
    length: int
    """How many bytes."""
    proof: Proof = Proof.COMMITTED

    @property
    def offset(self) -> int:
        return self.record.offset

    @property
    def end(self) -> int:
        return self.position + self.length


def check_magic(file: BinaryIO, where: str) -> None:
    """Read the first byte of *file*.

    Raises:
        DamagedBackup: the file is empty.
        UnsupportedSchema: the byte stands for another version.
    """
    with storage_errors(where):
        file.seek(0)
        magic = file.read(len(MAGIC))
    if not magic:
        raise DamagedBackup(where, 0, "the file is empty, its magic byte is missing", torn=True)
    if magic != MAGIC:
        raise UnsupportedSchema(
            f"{where}: the first byte is 0x{magic.hex()}, so this is not version 1 of the Kafka "
            "Backup format; read it with the release that wrote it."
        )


def read_segment(
    folder: Folder,
    name: str,
    *,
    start: int = FIRST_POSITION,
    end: int | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
    opened: BinaryIO | None = None,
) -> Iterator[FoundRecord]:
    """The records of file *name* in the bytes ``[start, end)``; by default, to its end.

    *opened* is the file, which is closed at the end; by default, it is opened here.

    *start* must be the start of a record. Offsets must rise. All records before damage are
    yielded before the error is raised.

    Raises:
        DamagedBackup: the bytes are not a record, or a record ends after *end* (torn).
        UnsupportedSchema: the file has another version of the format.
    """
    where = folder.where(name)
    with opened or folder.open(name) as file:
        check_magic(file, where)
        with storage_errors(where):
            size = file.seek(0, 2)
        reading = _Reading(file, where, max_record_bytes)
        yield from reading.records(start, size if end is None else min(end, size))
        if end is not None and size < end:
            raise DamagedBackup(where, size, f"the file should have {end} bytes", torn=True)


class _Reading:
    """A chunk of the file, refilled as records are taken from it."""

    def __init__(self, file: BinaryIO, where: str, max_record_bytes: int) -> None:
        self._file = file
        self._where = where
        self._max_record_bytes = max_record_bytes
        self._chunk = b""
        self._chunk_start = 0

    def records(self, start: int, end: int) -> Iterator[FoundRecord]:
        position, last_offset = start, -1
        if start < end:
            self._load(start, CHUNK_BYTES, end)
        while position < end:
            placed = self._next(position, end)
            offset = placed.record.offset
            if offset <= last_offset:
                reason = f"offset {offset} follows offset {last_offset}"
                raise DamagedBackup(self._where, position, reason)
            yield placed
            position, last_offset = placed.end, offset

    def _next(self, position: int, end: int) -> FoundRecord:
        while True:
            base = self._chunk_start
            try:
                record, after = decode(
                    self._chunk, position - base, end - base, self._max_record_bytes
                )
            except NeedMore as need:
                wanted = base + need.size - position
                if position == base:
                    wanted = max(wanted, min(2 * len(self._chunk), self._max_record_bytes))
                self._load(position, wanted, end)
            except UnreadableRecord as error:
                raise DamagedBackup(
                    self._where, base + error.at, error.reason, torn=error.torn
                ) from None
            else:
                return FoundRecord(record, position, base + after - position)

    def _load(self, position: int, size: int, end: int) -> None:
        """Load at least *size* bytes from *position*, or up to the end of the file."""
        size = min(max(size, CHUNK_BYTES), end - position)
        with storage_errors(self._where):
            self._file.seek(position)
            chunk = self._file.read(size)
        if len(chunk) < size:
            at = position + len(chunk)
            raise DamagedBackup(self._where, at, "the file was cut while it was read", torn=True)
        self._chunk, self._chunk_start = chunk, position
