"""Records read one behind the other, where no index tells where they lie.

A record is believed when the next one begins where it ends, or the bytes end there. Behind damage
reading begins again where so many records in a row fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.salvage.finding import (
    FoundRecord,
    Piece,
    Proof,
    UnreadBytes,
    UnreadCause,
)
from breakglass.services.topic_backup.salvage.records import OFFSET_BYTES, RecordsFile
from breakglass.services.topic_backup.segment_reader import CHUNK_BYTES, Placed

CHAIN = 3
"""Records in a row, with rising offsets, behind damage."""
_HEAD = re.compile(
    rb"(?!\x00{8})(?=[\x00-\x7f][\x00-\xff]{7}(?:\x00\x00\x00[\x00\x01]|\xff\xff\xff[\xfe\xff]))"
)
"""Where an offset and a timestamp type may stand; not offset 0, which any zeros are."""
HEAD_BYTES = 12
MOST_TRIES = 100_000
"""Places at which a record is looked for behind damage."""
MOST_LOOKED_AT = 64 * 1024 * 1024
"""Bytes behind damage in which they are."""
MOST_STEP = 1_000
"""Offsets from one record to the next that are believed among damage."""


class Walk:
    """Records with offsets behind *last*, and below *limit*."""

    def __init__(self, records: RecordsFile, last: int, limit: int) -> None:
        self._records = records
        self._last = last
        self._limit = limit
        self._damaged = False

    def filling(self, start: int, end: int) -> list[Placed]:
        """The records that lie in ``[start, end)`` and leave no byte of it; else none."""
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
        """Every record from *start* on that is proved by the one behind it."""
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
        """Whether records lie one behind the other from *start* to the end, or to a torn one."""
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
        """Whether *offset* may follow *last*; among damage only if it follows closely.

        Bytes that are read at a wrong place make offsets of any size.
        """
        most = last + MOST_STEP if self._damaged and last >= 0 else self._limit
        return last < offset < self._limit and offset <= most

    def _proved(self, placed: Placed) -> bool:
        """Whether what follows is the end, another record, or the beginning of one."""
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
        """Whether the record *before* stands at *at* once more."""
        return self._records.held(at, at + before.length) == encode(before.record)

    def _behind(self, at: int) -> Placed | None:
        """The first record from *at* on that begins a chain."""
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
                    # Its end is proved, and its beginning only by an offset that fits closely.
                    offset = placed.record.offset
                    close = offset in (self._last + 1, behind.record.offset - 1)
                    return placed if close else behind
            at += max(len(window) - HEAD_BYTES + 1, 1)
        return None

    def _chain(self, first: Placed) -> Placed | None:
        """The record behind *first*, if enough of them follow it."""
        placed, second = first, None
        for _ in range(CHAIN - 1):
            behind = self._fitting(placed.end, placed.record.offset)
            if behind is None:
                return None
            placed, second = behind, second or behind
        return second
