"""Reads records at any position of a records file, also where no index says where they are.

A record is accepted if the next record, or the end of the bytes, follows directly. After damage,
reading continues at the first position from which `CHAIN` records in a row can be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.topic_backup.record import (
    MAX_RECORD_BYTES,
    NeedMore,
    UnreadableRecord,
    decode,
    encode,
)
from breakglass.services.topic_backup.salvage.finding import (
    FoundRecord,
    Piece,
    Proof,
    UnreadBytes,
    UnreadCause,
)
from breakglass.services.topic_backup.segment_reader import CHUNK_BYTES, Placed

OFFSET_BYTES = 8


class RecordsFile:
    """One open records file, read up to *end*."""

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
        """The bytes ``[start, end)``; fewer if the file ends earlier."""
        end = min(end, self.end)
        if start >= end:
            return b""
        if not (self._start <= start and end <= self._start + len(self._chunk)):
            self._load(start, end - start)
        return self._chunk[start - self._start : end - self._start]

    def at(self, position: int) -> Placed | None:
        """The record at *position*; None if there is no complete record."""
        if self._memo[0] != position:
            self._memo = (position, self._decoded(position))
        return self._memo[1]

    def torn_at(self, position: int) -> bool:
        """Whether a record begins at *position* that ends after the end of the file."""
        try:
            self._decode(position)
        except UnreadableRecord as error:
            return error.torn and self.end - position >= OFFSET_BYTES
        return False

    def offset_at(self, position: int) -> int | None:
        """The offset of a record at *position*, if there is one."""
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
                # Each further read begins with the record again: doubling keeps it linear.
                wanted = base + need.size - position
                doubled = min(2 * len(self._chunk), self._max_record_bytes)
                self._load(position, max(wanted, doubled if position == base else 0))
            else:
                return Placed(record, position, base + after - position)

    def _load(self, position: int, size: int) -> None:
        size = min(max(size, CHUNK_BYTES), self.end - position)
        with storage_errors(self._where):
            self._file.seek(position)
            self._chunk, self._start = self._file.read(size), position
        if len(self._chunk) < size:
            # The file was cut while it was read, so the missing bytes contain no record.
            self.end = position + len(self._chunk)


CHAIN = 3
"""How many records in a row, with rising offsets, must follow damage."""
_HEAD = re.compile(
    rb"(?!\x00{8})(?=[\x00-\x7f][\x00-\xff]{7}(?:\x00\x00\x00[\x00\x01]|\xff\xff\xff[\xfe\xff]))"
)
"""Where an offset and a timestamp type may be; not offset 0, which any zeros look like."""
HEAD_BYTES = 12
MOST_TRIES = 100_000
"""How many positions after damage are tried for a record."""
MOST_LOOKED_AT = 64 * 1024 * 1024
"""How many bytes after damage are searched."""
MOST_STEP = 1_000
"""Largest accepted difference between two records' offsets near damage."""


class Walk:
    """Reads records with offsets above *last* and below *limit*."""

    def __init__(self, records: RecordsFile, last: int, limit: int) -> None:
        self._records = records
        self._last = last
        self._limit = limit
        self._damaged = False

    def filling(self, start: int, end: int) -> list[Placed]:
        """The records that fill ``[start, end)`` completely; empty if they do not."""
        found = []
        last = self._last
        while start < end:
            placed = self._records.at(start)
            if placed is None or placed.end > end or not last < placed.record.offset < self._limit:
                return []
            found.append(placed)
            start, last = placed.end, placed.record.offset
        return found

    def open_end(self, start: int) -> Iterator[Piece]:
        """Every record from *start* on that the following record proves."""
        self._damaged = not self._reaches_end(start)
        at, end = start, self._records.end
        before: Placed | None = None
        while at < end:
            placed = self._fitting(at, self._last)
            if placed is not None and self._proved(placed):
                yield FoundRecord(placed, Proof.WALKED)
                before, at, self._last = placed, placed.end, placed.record.offset
                continue
            if before is not None and self._doubles(before, at):
                yield UnreadBytes(
                    at, at + before.length, UnreadCause.DOUBLE, self._last + 1, self._last + 1
                )
                at += before.length
                continue
            found = self._behind(at + 1)
            if found is None and placed is None and self._torn(at, self._last):
                yield UnreadBytes(at, end, UnreadCause.TAIL, self._last + 1, None)
                return
            offset = None if found is None else found.record.offset
            upto = end if found is None else found.position
            yield UnreadBytes(at, upto, UnreadCause.DAMAGE, self._last + 1, offset)
            if found is None:
                return
            at, before = found.position, None

    def _reaches_end(self, start: int) -> bool:
        """Whether records fill the bytes from *start* to the end or to an incomplete record."""
        last, at = self._last, start
        while at < self._records.end:
            placed = self._fitting(at, last)
            if placed is None:
                return self._torn(at, last)
            at, last = placed.end, placed.record.offset
        return True

    def _fitting(self, at: int, last: int) -> Placed | None:
        placed = self._records.at(at)
        return placed if placed and self._rises(placed.record.offset, last) else None

    def _rises(self, offset: int, last: int) -> bool:
        """Whether *offset* may follow *last*; near damage, the difference must be small.

        Bytes that are read at a wrong position look like arbitrary offsets.
        """
        most = last + MOST_STEP if self._damaged and last >= 0 else self._limit
        return last < offset < self._limit and offset <= most

    def _proved(self, placed: Placed) -> bool:
        """Whether the end, another record or the beginning of a record follows."""
        end, offset = placed.end, placed.record.offset
        if end == self._records.end or self._fitting(end, offset) is not None:
            return True
        return self._doubles(placed, end) or self._torn(end, offset)

    def _torn(self, at: int, last: int) -> bool:
        """Whether the file ends within a record that begins at *at*."""
        offset = self._records.offset_at(at)
        close = offset is not None and last < offset < min(self._limit, last + MOST_STEP)
        return close and self._records.torn_at(at)

    def _doubles(self, before: Placed, at: int) -> bool:
        """Whether the record *before* is repeated at *at*."""
        return self._records.held(at, at + before.length) == encode(before.record)

    def _behind(self, at: int) -> Placed | None:
        """The first record at or after *at* that begins a chain."""
        end, tries = min(self._records.end, at + MOST_LOOKED_AT), 0
        while at < end:
            window = self._records.held(at, min(at + CHUNK_BYTES, end))
            for match in _HEAD.finditer(window):
                offset = int.from_bytes(window[match.start() : match.start() + OFFSET_BYTES])
                if not self._rises(offset, self._last):
                    continue
                tries += 1
                if tries > MOST_TRIES:
                    return None
                placed = self._fitting(at + match.start(), self._last)
                if placed is not None and (behind := self._chain(placed)):
                    # The end of this record is proved, but its beginning only by a close offset.
                    offset = placed.record.offset
                    close = offset in (self._last + 1, behind.record.offset - 1)
                    return placed if close else behind
            at += max(len(window) - HEAD_BYTES + 1, 1)
        return None

    def _chain(self, first: Placed) -> Placed | None:
        """The record after *first*, if enough records follow it."""
        placed, second = first, None
        for _ in range(CHAIN - 1):
            behind = self._fitting(placed.end, placed.record.offset)
            if behind is None:
                return None
            placed, second = behind, second or behind
        return second
