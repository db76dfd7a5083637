"""Finds every record of a damaged segment that records file and index together can prove.

An index entry proves a record that has the entry's offset and ends where the next record begins.
A record that ends elsewhere may contain bytes of the next record or lack its own, so it is not
accepted. If entries point past their records, all by the same distance, the records are searched
for; without entries, `records.Walk` reads record by record.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from breakglass.services.topic_backup.folder import Folder, storage_errors
from breakglass.services.topic_backup.layout import MAX_INT64, records_name, segment_index_name
from breakglass.services.topic_backup.record import MAX_RECORD_BYTES, encode
from breakglass.services.topic_backup.salvage.entries import Ahead, read_entries
from breakglass.services.topic_backup.salvage.finding import (
    FoundRecord,
    Piece,
    Proof,
    UnreadBytes,
    UnreadCause,
)
from breakglass.services.topic_backup.salvage.records import (
    MOST_STEP,
    OFFSET_BYTES,
    RecordsFile,
    Walk,
)
from breakglass.services.topic_backup.segment_index import IndexedRecord, open_index
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, Placed, check_magic

CHAIN = 3
"""How many entries in a row must match before records at another position are accepted."""
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
        self._before_it: Placed | None = None

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
                ends = self._ends_at(placed.end, placed.record.offset)
                proof = Proof.INDEX if ends else Proof.LAST
            self._at, self._last = placed.end, placed.record.offset
            self._before_it = placed
            self._proved += 1
            yield FoundRecord(placed, proof)
        yield from self._rest()

    def _before(self, placed: Placed) -> Iterator[Piece]:
        """Bytes that a killed writer left: parts of the same record, or a complete copy."""
        whole = encode(placed.record)
        held = self._records.held(self._at, placed.position)
        offset = placed.record.offset
        if held == whole or (self._before_it and held == encode(self._before_it.record)):
            cause = UnreadCause.DOUBLE
        elif _prefixes(held, whole):
            cause = UnreadCause.STRAY
        else:
            cause = UnreadCause.DAMAGE
        yield UnreadBytes(self._at, placed.position, cause, self._last + 1, offset)

    def _fit(self, entry: IndexedRecord, shift: int) -> Placed | None:
        """The record of *entry*, *shift* bytes after the position that the entry names."""
        if not self._last < entry.offset < self._limit:
            return None
        begin, end = entry.position + shift, entry.end + shift
        if begin < 1 or end > self._records.end:
            return None
        placed = self._records.at(begin)
        if placed is not None and (placed.record.offset, placed.end) == (entry.offset, end):
            return placed
        pattern = entry.offset.to_bytes(OFFSET_BYTES)
        found = []
        for place in self._records.positions_of(pattern, begin + 1, end):
            placed = self._records.at(place)
            if placed is not None and (placed.record.offset, placed.end) == (entry.offset, end):
                found.append(placed)
        explained = [placed for placed in found if self._explained(begin, placed)]
        if len(explained) == 1:
            return explained[0]
        close = 0 < entry.offset <= self._last + MOST_STEP
        return found[0] if close and len(found) == 1 else None

    def _explained(self, begin: int, placed: Placed) -> bool:
        held = self._records.held(begin, placed.position)
        return _prefixes(held, encode(placed.record))

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
            between = placed is not None and entry.offset < placed.record.offset < behind.offset
            return between or self._fit(behind, shift) is not None
        return self._fit(behind, shift) is not None or self._begins(behind, end)

    def _begins(self, entry: IndexedRecord, place: int) -> bool:
        """Whether the offset of *entry*, or as much of it as the file has, is at *place*."""
        held = self._records.held(place, place + OFFSET_BYTES)
        return entry.offset.to_bytes(OFFSET_BYTES)[: len(held)] == held

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
            if placed is not None and placed.record.offset == entry.offset:
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
            self._at, self._last = placed.end, placed.record.offset
            yield FoundRecord(placed, Proof.BETWEEN)

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
                yield from self._cut(named)
                return
        for piece in walk.open_end(self._at):
            if isinstance(piece, FoundRecord):
                self._last = piece.placed.record.offset
            yield piece
        self._at = self._records.end
        if named is not None and self._last + 1 < named <= self._limit:
            yield from self._cut(named)

    def _cut(self, named: int) -> Iterator[Piece]:
        """Bytes that the index names but that are not in the file."""
        end = self._records.end
        yield UnreadBytes(self._at, end, UnreadCause.CUT, self._last + 1, named)


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
    prefix: str,
    *,
    start_offset: int,
    next_offset: int | None,
    end: int | None = None,
    start: int = 0,
    max_record_bytes: int = MAX_RECORD_BYTES,
    committed: bool = False,
) -> Iterator[Piece]:
    """The pieces of one segment from offset *start* on, possibly with some before it.

    The segment's offsets are in ``[start_offset, next_offset)``; *end* is its committed size. The
    version of a *committed* segment is known, even if its first byte is damaged.

    Raises:
        UnsupportedSchema: the file has another version of the format.
        StorageError: the file cannot be read.
    """
    name = records_name(prefix)
    where = folder.where(name)
    with folder.open(name) as file:
        with storage_errors(where):
            size = file.seek(0, 2)
        entries = Ahead(read_entries(folder, prefix, size))
        if size < FIRST_POSITION:
            yield from _emptied(entries, start_offset)
            return
        if not committed:
            check_magic(file, where)
        records = RecordsFile(
            file, where, size if end is None else min(end, size), max_record_bytes
        )
        if _names_nothing(folder, prefix):
            if records.end > FIRST_POSITION:
                placed = records.at(FIRST_POSITION)
                offset = -1 if placed is None else placed.record.offset
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


def _emptied(entries: Ahead, start_offset: int) -> Iterator[Piece]:
    last = entries.last()
    if last is not None:
        yield UnreadBytes(0, 0, UnreadCause.CUT, start_offset, last.offset + 1)


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
    true = placed is not None and (placed.record.offset, placed.length) == (
        entry.offset,
        entry.length,
    )
    if not true or before.end != entry.position or not before.offset < entry.offset < start:
        return nowhere
    return number, entry.position, before.offset
