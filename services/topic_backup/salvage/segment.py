"""Every record of one damaged segment that can be proved, by two witnesses: records and index.

An index entry proves a record if the record at that place has that offset and ends where the next
one begins. A record that is read and does not end there may hold bytes of the next one, or lack
some of its own: it is not believed, for reading on would invent records. Where entries point beside
their records, all of them by the same number of bytes, the records are looked for; where there are
no entries, `walking` reads record by record.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from breakglass.services.topic_backup.layout import MAX_INT64
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.salvage.entries import Ahead
from breakglass.services.topic_backup.salvage.finding import (
    FoundRecord,
    Piece,
    Proof,
    UnreadBytes,
    UnreadCause,
)
from breakglass.services.topic_backup.salvage.records import OFFSET_BYTES, RecordsFile
from breakglass.services.topic_backup.salvage.walking import MOST_STEP, Walk
from breakglass.services.topic_backup.segment_index import IndexedRecord
from breakglass.services.topic_backup.segment_reader import Placed

CHAIN = 3
"""Entries in a row that have to fit before records are believed at another place."""
CONTRADICTING = 4
"""Records that have to fill a file before they are believed against an index that names others."""
MOST_ENTRIES = 64
"""Entries whose records are looked for behind damage."""
MOST_SHIFTED = 4 * 1024 * 1024
"""Bytes by which records may lie further back than their index says."""


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
        """Offsets of the segment are in ``[start_offset, next_offset)``; begin at byte *begin*.

        *last_offset* is that of the record before *begin*.
        """
        self._records = records
        self._entries = entries
        self._limit = MAX_INT64 + 1 if next_offset is None else next_offset
        self._next_offset = next_offset
        self._at = begin
        self._last = start_offset - 1 if last_offset is None else last_offset
        self._shift = 0
        """How many bytes records lie behind where their entries say."""
        self._proved = 0
        self._before_it: Placed | None = None

    def pieces(self) -> Iterator[Piece]:
        """Records and unread bytes, from the first byte to the last."""
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
            yield from self._taken(placed)
        yield from self._rest()

    def _taken(self, placed: Placed) -> Iterator[Piece]:
        """The record of an entry, and what lies before it within the bytes of the entry."""
        proof = Proof.SHIFTED if self._shift else Proof.INDEX
        if placed.position > self._at:
            yield from self._before(placed)
            proof = Proof.BEHIND_STRAY
        self._at, self._last = placed.end, placed.record.offset
        self._before_it = placed
        self._proved += 1
        yield FoundRecord(placed, proof)

    def _before(self, placed: Placed) -> Iterator[Piece]:
        """Bytes that a killed writer left: pieces of the very record, or it once more, whole."""
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
        """The record that *entry* stands for, *shift* bytes behind where it says."""
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
        explained = [one for one in found if self._explained(begin, one)]
        if len(explained) == 1:
            return explained[0]
        close = 0 < entry.offset <= self._last + MOST_STEP
        return found[0] if close and len(found) == 1 else None

    def _explained(self, begin: int, placed: Placed) -> bool:
        held = self._records.held(begin, placed.position)
        return _prefixes(held, encode(placed.record))

    def _anchored(self, entry: IndexedRecord, ahead: int, shift: int | None = None) -> bool:
        """Whether what follows the record of *entry* begins where that one ends.

        *ahead* is the place of the entry that follows it.
        """
        shift = self._shift if shift is None else shift
        end, behind = entry.end + shift, self._entries.peek(ahead)
        if behind is None:
            return self._ends_at(end, entry.offset)
        if behind.position != entry.end:
            # Stray bytes that the index leaves out, or records whose entries are gone.
            placed = self._records.at(end)
            between = placed is not None and entry.offset < placed.record.offset < behind.offset
            return between or self._fit(behind, shift) is not None
        return self._fit(behind, shift) is not None or self._begins(behind, end)

    def _begins(self, entry: IndexedRecord, place: int) -> bool:
        """Whether the offset of *entry* stands at *place*, or as much of it as there is."""
        held = self._records.held(place, place + OFFSET_BYTES)
        return entry.offset.to_bytes(OFFSET_BYTES)[: len(held)] == held

    def _ends_at(self, end: int, offset: int) -> bool:
        """Whether the last indexed record ends at *end*: nothing is there, or one behind it."""
        if end == self._records.end:
            return True
        following = self._records.offset_at(end)
        if following is None or not offset < following < min(self._limit, offset + MOST_STEP):
            return False
        return self._records.at(end) is not None or self._records.torn_at(end)

    def _found_again(self) -> Generator[Piece, None, bool]:
        """Go on where entries fit to records again; returns whether they do."""
        for number in range(MOST_ENTRIES):
            entry = self._entries.peek(number)
            if entry is None:
                break
            for shift in self._shifts(entry):
                if self._chain(number, shift):
                    self._entries.take(number)
                    self._shift = shift
                    yield from self._up_to(entry, number)
                    return True
        return False

    def _up_to(self, entry: IndexedRecord, passed_over: int) -> Iterator[Piece]:
        """What lies before the record of *entry*, which so many entries were passed over for."""
        place = entry.position + self._shift
        if not passed_over:
            yield from self._walked(place, entry.offset)
        if self._at < place or passed_over:
            yield self._damage(place, entry.offset)

    def _shifts(self, entry: IndexedRecord) -> Iterator[int]:
        """How far the record of *entry* may lie from where it says, the present shift first."""
        if entry.position + self._shift >= self._at:
            yield self._shift
        if entry.offset == 0:
            # Zeros that were put in look like the beginning of that record.
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
        """Whether entries from *number* on fit, one behind the other."""
        for place in range(number, number + CHAIN):
            entry = self._entries.peek(place)
            if entry is None:
                return place > number
            if self._fit(entry, shift) is None or not self._anchored(entry, place + 1, shift):
                # The one that was asked for has to be proved; a later one may be damaged, too.
                return place > number and shift == self._shift
        return True

    def _walked(self, end: int, before: int) -> Iterator[Piece]:
        """Records that no entry names, if they fill the bytes up to *end* wholly."""
        walk = Walk(self._records, self._last, min(before, self._limit))
        for placed in walk.filling(self._at, end):
            self._at, self._last = placed.end, placed.record.offset
            yield FoundRecord(placed, Proof.BETWEEN)

    def _damage(self, end: int, before: int | None) -> UnreadBytes:
        unread = UnreadBytes(self._at, end, UnreadCause.DAMAGE, self._last + 1, before)
        self._at = end
        return unread

    def _rest(self) -> Iterator[Piece]:
        """What is left when no entry fits any more."""
        last = self._entries.last()
        named = None if last is None else last.offset + 1
        walk = Walk(self._records, self._last, self._limit)
        if named is None and self._proved:
            yield from self._tail()
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
        """What the index still names, and is not there."""
        end = self._records.end
        yield UnreadBytes(self._at, end, UnreadCause.CUT, self._last + 1, named)

    def _tail(self) -> Iterator[Piece]:
        end = self._records.end
        if self._at < end:
            whole = self._records.at(self._at) is not None
            yield UnreadBytes(
                self._at, end, UnreadCause.TAIL, self._last + 1, self._next_offset, whole
            )


def _prefixes(held: bytes, whole: bytes) -> bool:
    """Whether *held* is made of beginnings of *whole*: one for each writer that was killed.

    A writer writes the offset at once.
    """
    while held:
        behind = held.find(whole[:OFFSET_BYTES], OFFSET_BYTES)
        size = behind if behind > 0 else len(held)
        if size < OFFSET_BYTES or held[:size] != whole[:size]:
            return False
        held = held[size:]
    return True
