"""Reads an index that may be damaged: finds each complete entry, also after incomplete ones.

A killed writer leaves part of an entry, and the next writer appends to it, so all later entries
are shifted. After stray bytes in the records file, an entry names a later position than the end of
the previous record. An entry is therefore accepted if it continues the previous entry or another
entry continues it; the records then confirm it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import BinaryIO

from breakglass.services.topic_backup.folder import Folder, storage_errors
from breakglass.services.topic_backup.layout import segment_index_name
from breakglass.services.topic_backup.segment_index import ENTRY, IndexedRecord
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION

SMALLEST_RECORD = 24
"""Offset, timestamp type, two lengths and the header count."""
MOST_STEP = 1_000
"""Largest accepted difference between two entries' offsets if records are shifted."""
CHUNK_ENTRIES = 40_000
MOST_LOOKED_AT = 1024 * 1024
"""How many bytes of an index are searched for the next complete entry."""

MOST_CUT = 1024 * 1024 * 1024
"""How far after the end of the records an entry may point: to records that are lost."""


def read_entries(folder: Folder, prefix: str, size: int, first: int = 0) -> Iterator[IndexedRecord]:
    """The entries of a segment's index from number *first* on; empty if there is no index.

    *size* is the actual or intended size of the records file.
    """
    name = segment_index_name(prefix)
    if folder.size(name) is None:
        return
    with folder.open(name) as file:
        yield from _Entries(file, folder.where(name), size, first).found()


class _Entries:
    def __init__(self, file: BinaryIO, where: str, size: int, first: int) -> None:
        self._limit = size + MOST_CUT
        self._file = file
        self._where = where
        self._chunk, self._start = b"", 0
        with storage_errors(where):
            self._size = file.seek(0, 2)
        self._at = FIRST_POSITION + first * ENTRY.size
        self._end: int | None = FIRST_POSITION if first == 0 else None
        """Where the record of the last entry ends; None: unknown."""
        self._last = -1

    def found(self) -> Iterator[IndexedRecord]:
        while (entry := self._entry(self._at)) is not None:
            if not (self._possible(entry) and self._end in (None, entry.position)):
                place = self._next_place()
                if place is None:
                    return
                self._at = place
                continue
            yield entry
            self._at += ENTRY.size
            self._end, self._last = entry.end, entry.offset

    def _next_place(self) -> int | None:
        """Where the next entry begins that fits the last entry or has a fitting successor."""
        upto = min(self._at + MOST_LOOKED_AT, self._size - ENTRY.size + 1)
        for at in range(self._at, upto):
            entry = self._entry(at)
            if entry is not None and self._possible(entry) and self._fits(at, entry):
                self._end = entry.position
                return at
        return None

    def _fits(self, at: int, entry: IndexedRecord) -> bool:
        """Whether the entry at *at* continues the last entry, or another entry continues it."""
        if self._end is None or entry.position == self._end:
            return True
        close = self._last < 0 or entry.offset <= self._last + MOST_STEP
        behind = self._entry(at + ENTRY.size)
        if behind is None:
            return close and at + ENTRY.size == self._size
        if entry.offset < behind.offset and entry.end == behind.position and self._within(behind):
            return True
        contradicted = self._possible(behind) and behind.offset <= entry.offset
        return close and at == self._at and not contradicted

    def _within(self, entry: IndexedRecord) -> bool:
        return entry.length >= SMALLEST_RECORD and entry.end <= self._limit

    def _possible(self, entry: IndexedRecord) -> bool:
        return (
            self._last < entry.offset
            and entry.position >= (self._end or FIRST_POSITION)
            and self._within(entry)
        )

    def _entry(self, at: int) -> IndexedRecord | None:
        if at + ENTRY.size > self._size:
            return None
        if not self._start <= at <= at + ENTRY.size <= self._start + len(self._chunk):
            with storage_errors(self._where):
                self._file.seek(at)
                self._chunk, self._start = self._file.read(CHUNK_ENTRIES * ENTRY.size), at
        if at + ENTRY.size > self._start + len(self._chunk):
            return None
        return IndexedRecord(*ENTRY.unpack_from(self._chunk, at - self._start))


class Ahead:
    """Entries that can be read ahead before they are taken."""

    def __init__(self, entries: Iterator[IndexedRecord]) -> None:
        self._entries = entries
        self._held: deque[IndexedRecord] = deque()

    def peek(self, number: int = 0) -> IndexedRecord | None:
        while len(self._held) <= number:
            entry = next(self._entries, None)
            if entry is None:
                return None
            self._held.append(entry)
        return self._held[number]

    def take(self, count: int = 1) -> None:
        for _ in range(count):
            self.peek()
            if self._held:
                self._held.popleft()

    def last(self) -> IndexedRecord | None:
        """Take all remaining entries; return the last."""
        last = self._held[-1] if self._held else None
        self._held.clear()
        for last in self._entries:  # noqa: B007 -- only the last one is wanted
            pass
        return last
