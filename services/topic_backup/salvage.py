"""Finds every record of a damaged segment that records file and index together can prove.

An index entry proves a record that has the entry's offset and ends where the next record begins.
A record that ends elsewhere may contain bytes of the next record or lack its own, so it is not
accepted. If entries point past their records, all by the same distance, the records are searched
for; without entries, `Walk` reads record by record. It accepts a record if the next record, or the
end of the bytes, follows directly; after damage, it continues at the first position from which
`CHAIN` records in a row can be read.

A killed writer leaves part of an index entry, and the next writer appends to it, so all later
entries are shifted. After stray bytes in the records file, an entry names a later position than the
end of the previous record. An entry is therefore accepted if it continues the previous entry or
another entry continues it; the records then confirm it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, TypeAlias

from breakglass.services.topic_backup.folder import Folder, storage_errors
from breakglass.services.topic_backup.layout import MAX_INT64, records_name, segment_index_name
from breakglass.services.topic_backup.record import (
    MAX_RECORD_BYTES,
    NeedMore,
    UnreadableRecord,
    decode,
    encode,
)
from breakglass.services.topic_backup.segment_bytes import SegmentExtent
from breakglass.services.topic_backup.segment_index import (
    ENTRY,
    OFFSET_BYTES,
    IndexedRecord,
    open_index,
)
from breakglass.services.topic_backup.segment_reader import (
    CHUNK_BYTES,
    FIRST_POSITION,
    FoundRecord,
    Proof,
    check_magic,
)

CHAIN = 3
"""How many records in a row, with rising offsets, must follow damage, or how many entries in a row
must match before records at another position are accepted."""
MOST_STEP = 1_000
"""Largest accepted difference between two offsets near damage, or where records are shifted."""


class UnreadCause(StrEnum):
    """Why bytes contain no record."""

    DOUBLE = "the record before it once more"
    STRAY = "the beginning of the record behind it, as a killed writer leaves it"
    TAIL = "behind the last indexed record"
    DAMAGE = "no record that can be proved"
    CUT = "named by the index and not there"


@dataclass(frozen=True, slots=True)
class UnreadBytes:
    """Bytes of a segment that are not read as a record."""

    position: int
    end: int
    cause: UnreadCause
    start_offset: int
    """The first offset that they may have contained."""
    end_offset: int | None
    """The offset after the last; None: unknown."""
    whole_record: bool = False
    """For a tail: whether it is a complete record that no index entry names."""

    @property
    def size(self) -> int:
        return self.end - self.position

    @property
    def loses(self) -> bool:
        """Whether a record may be missing as a result."""
        return self.cause in (UnreadCause.DAMAGE, UnreadCause.CUT)


Piece: TypeAlias = FoundRecord | UnreadBytes


SMALLEST_RECORD = 24
"""Offset, timestamp type, two lengths and the header count."""
CHUNK_ENTRIES = 40_000
MOST_INDEX_BYTES = 1024 * 1024
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
        upto = min(self._at + MOST_INDEX_BYTES, self._size - ENTRY.size + 1)
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
        self._memo: tuple[int, FoundRecord | None] = (-1, None)

    def held(self, start: int, end: int) -> bytes:
        """The bytes ``[start, end)``; fewer if the file ends earlier."""
        end = min(end, self.end)
        if start >= end:
            return b""
        if not (self._start <= start and end <= self._start + len(self._chunk)):
            self._load(start, end - start)
        return self._chunk[start - self._start : end - self._start]

    def at(self, position: int) -> FoundRecord | None:
        """The record at *position*; None if there is no complete record."""
        if self._memo[0] != position:
            self._memo = (position, None)
            if 0 < position < self.end:
                with suppress(UnreadableRecord):
                    self._memo = (position, self._decode(position))
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

    def _decode(self, position: int) -> FoundRecord:
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
                return FoundRecord(record, position, base + after - position, Proof.WALKED)

    def _load(self, position: int, size: int) -> None:
        size = min(max(size, CHUNK_BYTES), self.end - position)
        with storage_errors(self._where):
            self._file.seek(position)
            self._chunk, self._start = self._file.read(size), position
        if len(self._chunk) < size:
            # The file was cut while it was read, so the missing bytes contain no record.
            self.end = position + len(self._chunk)


_HEAD = re.compile(
    rb"(?!\x00{8})(?=[\x00-\x7f][\x00-\xff]{7}(?:\x00\x00\x00[\x00\x01]|\xff\xff\xff[\xfe\xff]))"
)
"""Where an offset and a timestamp type may be; not offset 0, which any zeros look like."""
HEAD_BYTES = 12
MOST_TRIES = 100_000
"""How many positions after damage are tried for a record."""
MOST_LOOKED_AT = 64 * 1024 * 1024
"""How many bytes after damage are searched."""


class Walk:
    """Reads records with offsets above *last* and below *limit*."""

    def __init__(self, records: RecordsFile, last: int, limit: int) -> None:
        self._records = records
        self._last = last
        self._limit = limit
        self._damaged = False

    def filling(self, start: int, end: int) -> list[FoundRecord]:
        """The records that fill ``[start, end)`` completely; empty if they do not."""
        found = []
        last = self._last
        while start < end:
            placed = self._records.at(start)
            if placed is None or placed.end > end or not last < placed.offset < self._limit:
                return []
            found.append(placed)
            start, last = placed.end, placed.offset
        return found

    def open_end(self, start: int) -> Iterator[Piece]:
        """Every record from *start* on that the following record proves."""
        self._damaged = not self._reaches_end(start)
        at, end = start, self._records.end
        before: FoundRecord | None = None
        while at < end:
            placed = self._fitting(at, self._last)
            if placed is not None and self._proved(placed):
                yield placed
                before, at, self._last = placed, placed.end, placed.offset
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
            offset = None if found is None else found.offset
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
            at, last = placed.end, placed.offset
        return True

    def _fitting(self, at: int, last: int) -> FoundRecord | None:
        placed = self._records.at(at)
        return placed if placed and self._rises(placed.offset, last) else None

    def _rises(self, offset: int, last: int) -> bool:
        """Whether *offset* may follow *last*; near damage, the difference must be small.

        Bytes that are read at a wrong position look like arbitrary offsets.
        """
        most = last + MOST_STEP if self._damaged and last >= 0 else self._limit
        return last < offset < self._limit and offset <= most

    def _proved(self, placed: FoundRecord) -> bool:
        """Whether the end, another record or the beginning of a record follows."""
        end, offset = placed.end, placed.offset
        if end == self._records.end or self._fitting(end, offset) is not None:
            return True
        return self._doubles(placed, end) or self._torn(end, offset)

    def _torn(self, at: int, last: int) -> bool:
        """Whether the file ends within a record that begins at *at*."""
        offset = self._records.offset_at(at)
        close = offset is not None and last < offset < min(self._limit, last + MOST_STEP)
        return close and self._records.torn_at(at)

    def _doubles(self, before: FoundRecord, at: int) -> bool:
        """Whether the record *before* is repeated at *at*."""
        return self._records.held(at, at + before.length) == encode(before.record)

    def _behind(self, at: int) -> FoundRecord | None:
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
                    offset = placed.offset
                    close = offset in (self._last + 1, behind.offset - 1)
                    return placed if close else behind
            at += max(len(window) - HEAD_BYTES + 1, 1)
        return None

    def _chain(self, first: FoundRecord) -> FoundRecord | None:
        """The record after *first*, if enough records follow it."""
        placed, second = first, None
        for _ in range(CHAIN - 1):
            behind = self._fitting(placed.end, placed.offset)
            if behind is None:
                return None
            placed, second = behind, second or behind
        return second


CONTRADICTING = 4
"""How many records must fill a file before they outweigh an index that names other records."""
MOST_ENTRIES = 64
"""How many entries are tried when records are searched for after damage."""
MOST_SHIFTED = 4 * 1024 * 1024
"""How far records may be shifted from the position in their index, in bytes."""


class SegmentSalvage:
    """One pass over a segment."""

    def __init__(
        self,
        records: RecordsFile,
        entries: Ahead,
        *,
        start_offset: int,
        next_offset: int | None,
        begin: int,
        last_offset: int | None = None,
    ) -> None:
        """Begin at byte *begin*; the segment's offsets are in ``[start_offset, next_offset)``.

        *last_offset* is the offset of the record before *begin*.
        """
        self._records = records
        self._entries = entries
        self._limit = MAX_INT64 + 1 if next_offset is None else next_offset
        self._next_offset = next_offset
        self._at = begin
        self._last = start_offset - 1 if last_offset is None else last_offset
        self._shift = 0
        """How many bytes after their entries' positions the records are."""
        self._proved = 0
        self._before_it: FoundRecord | None = None

    def pieces(self) -> Iterator[Piece]:
        """Records and unreadable bytes, from the first byte to the last."""
        while (entry := self._entries.peek()) is not None:
            place = entry.position + self._shift
            if place > self._at:
                yield from self._walked(place, entry.offset)
                unnamed = self._fit(entry, self._shift) if self._at < place else None
                if unnamed is not None:
                    yield from self._before(unnamed)
                    self._at = place
            placed = self._fit(entry, self._shift) if place == self._at else None
            if placed is None or not self._anchored(entry, 1):
                if not (yield from self._found_again()):
                    break
                continue
            self._entries.take()
            # The record of an entry, after the bytes that precede it.
            proof = Proof.SHIFTED if self._shift else Proof.INDEX
            if placed.position > self._at:
                yield from self._before(placed)
                proof = Proof.BEHIND_STRAY
            elif not self._shift and self._entries.peek() is None:
                ends = self._ends_at(placed.end, placed.offset)
                proof = Proof.INDEX if ends else Proof.LAST
            self._at, self._last = placed.end, placed.offset
            self._before_it = placed
            self._proved += 1
            yield placed._replace(proof=proof)
        yield from self._rest()

    def _before(self, placed: FoundRecord) -> Iterator[Piece]:
        """Bytes that a killed writer left: parts of the same record, or a complete copy."""
        whole = encode(placed.record)
        held = self._records.held(self._at, placed.position)
        offset = placed.offset
        if held == whole or (self._before_it and held == encode(self._before_it.record)):
            cause = UnreadCause.DOUBLE
        elif _prefixes(held, whole):
            cause = UnreadCause.STRAY
        else:
            cause = UnreadCause.DAMAGE
        yield UnreadBytes(self._at, placed.position, cause, self._last + 1, offset)

    def _fit(self, entry: IndexedRecord, shift: int) -> FoundRecord | None:
        """The record of *entry*, *shift* bytes after the position that the entry names."""
        if not self._last < entry.offset < self._limit:
            return None
        begin, end = entry.position + shift, entry.end + shift
        if begin < 1 or end > self._records.end:
            return None
        placed = self._records.at(begin)
        if placed is not None and (placed.offset, placed.end) == (entry.offset, end):
            return placed
        pattern = entry.offset.to_bytes(OFFSET_BYTES)
        found = []
        for place in self._records.positions_of(pattern, begin + 1, end):
            placed = self._records.at(place)
            if placed is not None and (placed.offset, placed.end) == (entry.offset, end):
                found.append(placed)
        explained = [
            placed
            for placed in found
            if _prefixes(self._records.held(begin, placed.position), encode(placed.record))
        ]
        if len(explained) == 1:
            return explained[0]
        close = 0 < entry.offset <= self._last + MOST_STEP
        return found[0] if close and len(found) == 1 else None

    def _anchored(self, entry: IndexedRecord, ahead: int, shift: int | None = None) -> bool:
        """Whether the next record begins where the record of *entry* ends.

        *ahead* is the place of the entry after *entry*.
        """
        shift = self._shift if shift is None else shift
        end, behind = entry.end + shift, self._entries.peek(ahead)
        if behind is None:
            # A record of exactly the entry's length is given, whatever follows it.
            placed = self._records.at(entry.position)
            there = placed is not None and IndexedRecord.of(placed) == entry
            return (there and not shift) or self._ends_at(end, entry.offset)
        if behind.position != entry.end:
            # Either stray bytes that the index skips, or records whose entries are lost.
            placed = self._records.at(end)
            between = placed is not None and entry.offset < placed.offset < behind.offset
            return between or self._fit(behind, shift) is not None
        # Or the offset of the next record, as much of it as the file has, is there.
        held = self._records.held(end, end + OFFSET_BYTES)
        begins = behind.offset.to_bytes(OFFSET_BYTES)[: len(held)] == held
        return begins or self._fit(behind, shift) is not None

    def _ends_at(self, end: int, offset: int) -> bool:
        """Whether the last indexed record ends at *end*: the file ends or a record begins there."""
        if end == self._records.end:
            return True
        following = self._records.offset_at(end)
        if following is None or not offset < following < min(self._limit, offset + MOST_STEP):
            return False
        return self._records.at(end) is not None or self._records.torn_at(end)

    def _found_again(self) -> Generator[Piece, None, bool]:
        """Continue where entries match records again; return whether they do."""
        for number in range(MOST_ENTRIES):
            entry = self._entries.peek(number)
            if entry is None:
                break
            for shift in self._shifts(entry):
                if self._chain(number, shift):
                    self._entries.take(number)
                    self._shift = shift
                    # The bytes before the record of entry, for which passed_over entries were
                    # skipped.
                    place = entry.position + self._shift
                    if not number:
                        yield from self._walked(place, entry.offset)
                    if self._at < place or number:
                        unread = UnreadBytes(
                            self._at, place, UnreadCause.DAMAGE, self._last + 1, entry.offset
                        )
                        self._at = place
                        yield unread
                    return True
        return False

    def _shifts(self, entry: IndexedRecord) -> Iterator[int]:
        """The possible shifts for the record of *entry*, the current shift first."""
        if entry.position + self._shift >= self._at:
            yield self._shift
        if entry.offset == 0:
            # Offset 0 consists of zeros, which are common in damaged bytes.
            return
        upto = entry.position + self._shift + MOST_SHIFTED
        pattern = entry.offset.to_bytes(OFFSET_BYTES)
        for place in self._records.positions_of(pattern, self._at, upto):
            placed = self._records.at(place)
            if placed is not None and placed.offset == entry.offset:
                shift = placed.end - entry.end
                if shift != self._shift and entry.position + shift >= self._at:
                    yield shift

    def _chain(self, number: int, shift: int) -> bool:
        """Whether entries from *number* on match consecutive records."""
        for place in range(number, number + CHAIN):
            entry = self._entries.peek(place)
            if entry is None:
                return place > number
            if self._fit(entry, shift) is None or not self._anchored(entry, place + 1, shift):
                # The requested entry must be proved; a later entry may be damaged too.
                return place > number and shift == self._shift
        return True

    def _walked(self, end: int, before: int) -> Iterator[Piece]:
        """Records without entries, if they fill the bytes up to *end* completely."""
        walk = Walk(self._records, self._last, min(before, self._limit))
        for placed in walk.filling(self._at, end):
            self._at, self._last = placed.end, placed.offset
            yield placed._replace(proof=Proof.BETWEEN)

    def _rest(self) -> Iterator[Piece]:
        """What remains when no further entry matches."""
        last = self._entries.last()
        named = None if last is None else last.offset + 1
        walk = Walk(self._records, self._last, self._limit)
        if named is None and self._proved:
            end = self._records.end
            if self._at < end:
                whole = self._records.at(self._at) is not None
                yield UnreadBytes(
                    self._at, end, UnreadCause.TAIL, self._last + 1, self._next_offset, whole
                )
            return
        if named is not None:
            filling = walk.filling(self._at, self._records.end)
            if len(filling) < CONTRADICTING:
                yield self._cut(named)
                return
        for piece in walk.open_end(self._at):
            if isinstance(piece, FoundRecord):
                self._last = piece.offset
            yield piece
        self._at = self._records.end
        if named is not None and self._last + 1 < named <= self._limit:
            yield self._cut(named)

    def _cut(self, named: int) -> UnreadBytes:
        """Bytes that the index names but that are not in the file."""
        end = self._records.end
        return UnreadBytes(self._at, end, UnreadCause.CUT, self._last + 1, named)


def _prefixes(held: bytes, whole: bytes) -> bool:
    """Whether *held* consists of beginnings of *whole*, each left by a killed writer.

    Each beginning has a complete offset, because a writer writes the offset at once.
    """
    while held:
        behind = held.find(whole[:OFFSET_BYTES], OFFSET_BYTES)
        size = behind if behind > 0 else len(held)
        if size < OFFSET_BYTES or held[:size] != whole[:size]:
            return False
        held = held[size:]
    return True


def salvaged(
    folder: Folder,
    segment: SegmentExtent,
    start: int = 0,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[Piece]:
    """The pieces of one segment from offset *start* on, possibly with some before it.

    The version of a committed segment is known, even if its first byte is damaged.

    Raises:
        UnsupportedSchema: the file has another version of the format.
        StorageError: the file cannot be read.
    """
    prefix, end, next_offset = segment.prefix, segment.end, segment.next_offset
    start_offset, committed = segment.start_offset, segment.summary
    if committed is not None and committed.first_offset is not None:
        start_offset = committed.first_offset
    name = records_name(prefix)
    where = folder.where(name)
    with folder.open(name) as file:
        with storage_errors(where):
            size = file.seek(0, 2)
        entries = Ahead(read_entries(folder, prefix, size))
        if size < FIRST_POSITION:
            if (emptied := entries.last()) is not None:
                yield UnreadBytes(0, 0, UnreadCause.CUT, start_offset, emptied.offset + 1)
            return
        if committed is None:
            check_magic(file, where)
        records = RecordsFile(
            file, where, size if end is None else min(end, size), max_record_bytes
        )
        if _names_nothing(folder, prefix):
            if records.end > FIRST_POSITION:
                placed = records.at(FIRST_POSITION)
                offset = -1 if placed is None else placed.offset
                whole = placed is not None and start_offset <= offset
                first = max(start_offset, offset)
                yield UnreadBytes(
                    FIRST_POSITION, records.end, UnreadCause.TAIL, first, next_offset, whole
                )
            return
        number, begin, last = 0, FIRST_POSITION, None
        if start > start_offset:
            number, begin, last = _place(folder, prefix, records, start)
            entries = Ahead(read_entries(folder, prefix, size, number))
        yield from SegmentSalvage(
            records,
            entries,
            start_offset=start_offset,
            next_offset=next_offset,
            begin=begin,
            last_offset=last,
        ).pieces()


def _names_nothing(folder: Folder, prefix: str) -> bool:
    """Whether the index exists but has not even part of an entry."""
    index = open_index(folder, prefix)
    if index is None:
        return False
    with index:
        return folder.size(segment_index_name(prefix)) == FIRST_POSITION


def _place(
    folder: Folder, prefix: str, records: RecordsFile, start: int
) -> tuple[int, int, int | None]:
    """Where to begin: number of the entry, position, and the offset before it.

    Uses the index only if it ends where the records end, because then nothing is shifted.
    """
    nowhere = (0, FIRST_POSITION, None)
    index = open_index(folder, prefix)
    if index is None:
        return nowhere
    with index:
        last = index.last
        if last is None or last.end != records.end:
            return nowhere
        number = index.first_from(start) - 1
        if number < 1:
            return nowhere
        before, entry = index[number - 1], index[number]
    placed = records.at(entry.position)
    true = placed is not None and IndexedRecord.of(placed) == entry
    if not true or before.end != entry.position or not before.offset < entry.offset < start:
        return nowhere
    return number, entry.position, before.offset
