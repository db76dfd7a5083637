"""One partition of a topic backup as a source: by its indexes, past whatever is damaged."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from services.divergence.backup_tape import BackupTape
from services.divergence.content import Keep, content_of, headers_of
from services.divergence.entry import Entry, Item, Unreadable
from services.divergence.source import Extent, Reading
from services.errors import DamagedBackup, StorageError, UnsupportedSchema
from services.topic_backup.extent import Extent as Stretch
from services.topic_backup.extent import seek
from services.topic_backup.folder import Folder
from services.topic_backup.layout import records_name
from services.topic_backup.reader import LeftOut
from services.topic_backup.record import MAX_RECORD_BYTES, Record
from services.topic_backup.segment_index import Entry as IndexEntry
from services.topic_backup.segment_index import open_index
from services.topic_backup.segment_reader import Placed, read_segment
from services.topic_backup.summary import EpochStart

LOOK_EVERY = 64
"""Records between two questions whether to go on."""
MOST_TRIES = 64
"""Places behind damage at which whole records are looked for, further and further away."""
GONE = "the manifest has this segment, the folder has not; take the file from another copy"
READ_ERRORS = (DamagedBackup, StorageError, UnsupportedSchema)


@dataclass(frozen=True)
class BackupSource:
    """A partition of a backup, in the extent that it had when it was opened."""

    name: str
    folder: Folder
    partition: int
    stretches: tuple[Stretch, ...]
    """How far each segment is to be read, by offset."""
    extent: Extent
    epochs: tuple[EpochStart, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    """Bytes of its files that are no part of the backup."""
    gone: frozenset[str] = frozenset()
    """Prefixes of segments that the manifest has and the folder has not."""

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The records in ``[start, end)``.

        What is damaged is `Unreadable` up to where the index finds whole records again, or to
        the next segment.
        """
        asked = self.extent.within(start, end)
        return _Walk(self, asked.start, asked.end, reading).items()

    def tape(self, start: int, end: int, reading: Reading) -> BackupTape:
        """Its files from the record at *start* on."""
        asked = self.extent.within(start, end)
        needed = self.stretches[self.first_needed(start) :]
        stretches = tuple(takewhile(lambda one: one.prefix not in self.gone, needed))
        return BackupTape(self.folder, stretches, asked, reading, self.epochs)

    def records(self, start: int, reading: Reading) -> Iterator[Record]:
        """Whole records from *start* on; ends at damage. Raises READ_ERRORS."""
        for place in range(self.first_needed(start), len(self.stretches)):
            stretch = self.stretches[place]
            position = seek(self.folder, stretch, start, MAX_RECORD_BYTES)
            for number, placed in enumerate(self.placed(stretch, position)):
                if number % LOOK_EVERY == 0:
                    reading.go_on()
                if placed.record.offset >= start:
                    yield placed.record

    def placed(self, stretch: Stretch, position: int) -> Iterator[Placed]:
        """The records of one segment from that byte on; a torn one at an open end is left out."""
        name = records_name(stretch.prefix)
        try:
            yield from read_segment(self.folder, name, start=position, end=stretch.end)
        except DamagedBackup as damage:
            if not (damage.torn and stretch.end is None):
                raise

    def first_needed(self, start: int) -> int:
        """The segment that *start* lies in, or behind."""
        return max(bisect_right(self._starts, start) - 1, 0)

    def next_start(self, place: int) -> int:
        """The first offset that the segment behind that one may hold."""
        following = self.stretches[place + 1 : place + 2]
        return following[0].start_offset if following else self.extent.end

    def epoch_at(self, offset: int) -> int | None:
        """The leader epoch that wrote *offset*, where the manifest knows it."""
        place = bisect_right(self._epoch_starts, offset) - 1
        return self.epochs[place].epoch if place >= 0 else None

    @cached_property
    def _starts(self) -> list[int]:
        return [one.start_offset for one in self.stretches]

    @cached_property
    def _epoch_starts(self) -> list[int]:
        return [one.offset for one in self.epochs]


def stored_entry(record: Record, epoch: int | None, keep: Keep) -> Entry:
    """One record of a backup, held in a bounded number of bytes."""
    return Entry(
        record.offset,
        epoch,
        record.timestamp_type,
        record.timestamp,
        content_of(record.key, keep.value),
        content_of(record.value, keep.value),
        headers_of(record.headers, keep),
    )


class _Walk:
    """One pass over a stretch of a backup; `_at` is the next offset to be told of."""

    def __init__(self, source: BackupSource, start: int, end: int, reading: Reading) -> None:
        self._source, self._at, self._end, self._reading = source, start, end, reading

    def items(self) -> Iterator[Item]:
        source = self._source
        place = source.first_needed(self._at)
        while place < len(source.stretches) and self._at < self._end:
            if source.stretches[place].start_offset >= self._end:
                return
            yield from self._segment(place)
            place += 1

    def _segment(self, place: int) -> Iterator[Item]:
        source = self._source
        stretch = source.stretches[place]
        if stretch.prefix in source.gone:
            where = source.folder.where(records_name(stretch.prefix))
            yield from self._unreadable(source.next_start(place), f"{where}: {GONE}")
            return
        try:
            position = seek(source.folder, stretch, self._at, MAX_RECORD_BYTES)
        except READ_ERRORS:
            position = 1
        while position:
            try:
                yield from self._entries(stretch, position)
                return
            except READ_ERRORS as error:
                at = error.position if isinstance(error, DamagedBackup) else position
                found = self._behind(stretch, at)
                end = found.offset if found else source.next_start(place)
                yield from self._unreadable(end, str(error))
                position = found.position if found else 0

    def _entries(self, stretch: Stretch, position: int) -> Iterator[Item]:
        source, keep = self._source, self._reading.keep
        for number, placed in enumerate(source.placed(stretch, position)):
            if number % LOOK_EVERY == 0:
                self._reading.go_on()
            record = placed.record
            if record.offset >= self._end:
                self._at = self._end
                return
            if record.offset >= self._at:
                self._at = record.offset + 1
                yield stored_entry(record, source.epoch_at(record.offset), keep)

    def _unreadable(self, end: int, reason: str) -> Iterator[Unreadable]:
        end = min(end, self._end)
        if self._at < end:
            yield Unreadable(self._at, end, reason)
            self._at = end

    def _behind(self, stretch: Stretch, position: int) -> IndexEntry | None:
        """Where the index finds a whole record behind that byte."""
        index = open_index(self._source.folder, stretch.prefix)
        if index is None:
            return None
        with index:
            number = bisect_right(index, position, key=lambda entry: entry.position)
            for step in range(MOST_TRIES):
                if number >= len(index):
                    return None
                self._reading.go_on()
                entry = index[number]
                if self._true(stretch, entry):
                    return entry
                number += 1 + step // 8
        return None

    def _true(self, stretch: Stretch, entry: IndexEntry) -> bool:
        """Whether the record that *entry* speaks of is there, and not before `_at`."""
        if entry.offset < self._at or (stretch.end is not None and entry.end > stretch.end):
            return False
        name = records_name(stretch.prefix)
        try:
            records = read_segment(self._source.folder, name, start=entry.position, end=entry.end)
            placed = next(records, None)
        except READ_ERRORS:
            return False
        return placed is not None and IndexEntry.of(placed) == entry
