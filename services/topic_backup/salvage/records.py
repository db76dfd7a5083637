"""The bytes of a records file from anywhere: the record at a position, and where bytes occur."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.topic_backup.record import (
    MAX_RECORD_BYTES,
    NeedMore,
    UnreadableRecord,
    decode,
)
from breakglass.services.topic_backup.segment_reader import CHUNK_BYTES, Placed

OFFSET_BYTES = 8


class RecordsFile:
    """One open records file, read as far as *end*."""

    def __init__(
        self, file: BinaryIO, where: str, end: int, max_record_bytes: int = MAX_RECORD_BYTES
    ) -> None:
        self.end = end
        self._file = file
        self._where = where
        self._max_record_bytes = max_record_bytes
        self._chunk = b""
        self._start = 0
        self._memo: tuple[int, Placed | None] = (-1, None)

    def held(self, start: int, end: int) -> bytes:
        """The bytes ``[start, end)``, fewer where the file ends before."""
        end = min(end, self.end)
        if start >= end:
            return b""
        if not (self._start <= start and end <= self._start + len(self._chunk)):
            self._load(start, end - start)
        return self._chunk[start - self._start : end - self._start]

    def at(self, position: int) -> Placed | None:
        """The record at *position*, if one is wholly there."""
        if self._memo[0] != position:
            self._memo = (position, self._decoded(position))
        return self._memo[1]

    def torn_at(self, position: int) -> bool:
        """Whether the bytes from *position* on are a record that ends behind the file's end."""
        try:
            self._decode(position)
        except UnreadableRecord as error:
            return error.torn and self.end - position >= OFFSET_BYTES
        return False

    def offset_at(self, position: int) -> int | None:
        """The offset that a record at *position* would have."""
        held = self.held(position, position + OFFSET_BYTES)
        return int.from_bytes(held) if len(held) == OFFSET_BYTES else None

    def positions_of(self, pattern: bytes, start: int, end: int) -> Iterator[int]:
        """Where *pattern* begins in ``[start, end)``."""
        end = min(end, self.end)
        while start < end:
            upto = min(start + CHUNK_BYTES, end)
            window = self.held(start, upto + len(pattern) - 1)
            at = window.find(pattern)
            while at >= 0:
                yield start + at
                at = window.find(pattern, at + 1)
            start = upto

    def _decoded(self, position: int) -> Placed | None:
        if not 0 < position < self.end:
            return None
        try:
            return self._decode(position)
        except UnreadableRecord:
            return None

    def _decode(self, position: int) -> Placed:
        self.held(position, position + 1)
        while True:
            base = self._start
            try:
                record, after = decode(
                    self._chunk, position - base, self.end - base, self._max_record_bytes
                )
            except NeedMore as need:
                self._load(position, base + need.size - position)
            else:
                return Placed(record, position, base + after - position)

    def _load(self, position: int, size: int) -> None:
        size = min(max(size, CHUNK_BYTES), self.end - position)
        with storage_errors(self._where):
            self._file.seek(position)
            self._chunk, self._start = self._file.read(size), position
        if len(self._chunk) < size:
            # The file was cut while it was read: what is gone is no record.
            self.end = position + len(self._chunk)
