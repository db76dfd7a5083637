"""Reads one partition of a topic backup as a source, as entries or as bytes.

The indexes say which record a byte belongs to, and where to continue after damage. A record has the
same bytes in every segment, so two backups can be compared even if their segments differ.

Reads a metastore backup, a file of ``key:value`` lines, as a source by position.
The file has no offsets. Positions count commands from 1: a blank, torn or null line has no
position, as when the file is replayed (KLIP-31).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from breakglass.services.divergence.source import (
    Extent,
    Item,
    Keep,
    RawForm,
    RawLog,
    Reach,
    Reading,
    RecordEntry,
    SourceWalk,
    content_of,
    entry_of,
)
from breakglass.services.errors import DamagedBackup, StorageError, UnsupportedSchema, UsageError
from breakglass.services.metastore.lines import LineProblem, read_lines
from breakglass.services.record_batches import TimestampType
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import Folder, storage_errors
from breakglass.services.topic_backup.layout import records_name
from breakglass.services.topic_backup.reader import IN_DOUBT, LeftOut, pieces_of
from breakglass.services.topic_backup.segment_bytes import OTHER_BYTES, SegmentExtent, remembered
from breakglass.services.topic_backup.segment_index import (
    OFFSET_BYTES,
    READ_AT_ONCE,
    FalseIndex,
    IndexedRecord,
    SegmentIndex,
    entries_of,
    open_index,
    require_true,
)
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION
from breakglass.services.topic_backup.summary import EpochStart

PIECE_BYTES = 1024 * 1024
UNREADABLE = (StorageError, DamagedBackup, UnsupportedSchema, FalseIndex)


@dataclass(frozen=True, slots=True)
class RecordsPiece:
    """Whole records of one segment."""

    data: bytes
    position: int
    """Position of the first record in the records file."""
    entries: Sequence[IndexedRecord]
    """Of each record, as the records file proves them."""

    @property
    def begin(self) -> int:
        return 0

    @property
    def end(self) -> int:
        return len(self.data)

    def reach(self, begin: int, end: int, at: int) -> Reach:
        before = bisect_right(self.entries, self.position + begin, key=_entry_end)
        held = bisect_right(self.entries, self.position + end, key=_entry_end)
        if held == before:
            return Reach(at, 0, begin == end)
        last = self.entries[held - 1]
        return Reach(max(at, last.offset + 1), held - before, last.end == self.position + end)


def _entry_end(entry: IndexedRecord) -> int:
    return entry.end


def _read(file: BinaryIO, position: int, size: int) -> bytes:
    """*size* bytes of a records file from *position* on.

    Raises:
        FalseIndex: the file ends before.
    """
    file.seek(position)
    data = file.read(size)
    if len(data) < size:
        raise FalseIndex
    return data


LOOK_EVERY = 64
"""Number of records between two calls of `Reading.go_on`."""
GONE = "the manifest has this segment, the folder has not; take the file from another copy"
READ_ERRORS = (DamagedBackup, StorageError, UnsupportedSchema)


@dataclass(frozen=True)
class BackupSource:
    """A partition of a backup, in the extent it had when it was opened."""

    name: str
    folder: Folder
    stretches: tuple[SegmentExtent, ...]
    """How far each segment is to be read, by offset."""
    extent: Extent
    epochs: tuple[EpochStart, ...] = ()
    """The leader epochs that the manifest names: a backup's bytes have none."""
    left_out: tuple[LeftOut, ...] = ()
    """Bytes of the files that are not part of the backup."""

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The records in ``[start, end)``; a stretch that fails its checks is `UnreadableRange`."""
        return _Walk(self, self.extent.within(start, end), reading).items()

    def raw_log(self, start: int, end: int, reading: Reading) -> RawLog:
        """The files from the record at *start* on."""
        asked = self.extent.within(start, end)
        return RawLog(RawForm.RECORDS, self._raw(start, asked, reading), self.epochs)

    def _raw(self, start: int, asked: Extent, reading: Reading) -> Iterator[RecordsPiece]:
        """Pieces of about a megabyte. Ends where a segment has no index, or is damaged."""
        try:
            for stretch in self.stretches[self.first_needed(start) :]:
                # Both sides may have the same damage.
                if stretch.start_offset >= asked.end or stretch.altered(self.folder):
                    return
                index = open_index(self.folder, stretch.prefix)
                if index is None:
                    return
                with index:
                    # Whether the index names records beyond the end of the file.
                    size = self.folder.size(records_name(stretch.prefix)) or 0
                    if index.last is not None and index.last.end > size:
                        return
                    size = size if stretch.end is None else min(size, stretch.end)
                    yield from self._segment(stretch, index, size, asked, reading)
        except UNREADABLE:
            return

    def _segment(
        self, stretch: SegmentExtent, index: SegmentIndex, size: int, asked: Extent,
        reading: Reading,
    ) -> Iterator[RecordsPiece]:  # fmt: skip
        """The records of one segment that lie within *asked*, of *size* bytes of its file."""
        first, last = index.first_from(asked.start), index.first_from(asked.end)
        last = min(last, index.count_within(size))
        with stretch.opened(self.folder) as file:
            position = FIRST_POSITION
            if first > 0:
                # A record before the range that the index hides would hide a difference.
                before = index[first - 1]
                if before.position < FIRST_POSITION:
                    return
                begins = _read(file, before.position, OFFSET_BYTES)
                require_true([before], begins, before.position, size)
                position = before.end
            while first < last:
                reading.go_on()
                read = min(last, first + READ_AT_ONCE, len(index) - 1) + 1
                entries = entries_of(index, first, read)
                count = max(1, bisect_right(entries, position + PIECE_BYTES, key=_entry_end))
                count = min(count, last - first)
                end, follows = entries[count - 1].end, count < len(entries)
                # The record that follows, or the end of the file, proves where the last one ends.
                if end <= position or end > size or (not follows and end < size):
                    return
                data = _read(file, position, end - position + OFFSET_BYTES * follows)
                require_true(entries[: count + follows], data, position, size)
                yield RecordsPiece(data[: end - position], position, entries[:count])
                first, position = first + count, end

    def changed_unseen(self, stretch: SegmentExtent) -> str:
        """Why no record of the segment can be trusted, although all of them are well-formed.

        The file is not the committed one, and nothing shows which record was changed.
        """
        if stretch.altered(self.folder) != OTHER_BYTES:
            return ""

        def doubt() -> str:
            pieces = (one for one in pieces_of(self.folder, stretch) if isinstance(one, LeftOut))
            reasons = (one.reason for one in pieces if one.damage)
            return next((reason for reason in reasons if reason.endswith(IN_DOUBT)), "")

        return remembered(self.folder, stretch.own_summary, "in doubt", doubt)

    def first_needed(self, start: int) -> int:
        """The segment that contains *start*, or else the last one before *start*."""
        return max(bisect_right(self.stretches, start, key=lambda one: one.start_offset) - 1, 0)

    def next_start(self, place: int) -> int:
        """The first offset that the following segment may have."""
        following = self.stretches[place + 1 : place + 2]
        return following[0].start_offset if following else self.extent.end

    def epoch_at(self, offset: int) -> int | None:
        """The leader epoch that wrote *offset*, if the manifest names it."""
        place = bisect_right(self._epoch_starts, offset) - 1
        return self.epochs[place].epoch if place >= 0 else None

    @cached_property
    def _epoch_starts(self) -> list[int]:
        return [epoch.offset for epoch in self.epochs]


class _Walk(SourceWalk):
    """One pass over a stretch of a backup."""

    def __init__(self, source: BackupSource, asked: Extent, reading: Reading) -> None:
        super().__init__(asked, reading)
        self._source = source

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
        end = source.next_start(place)
        where = source.folder.where(records_name(stretch.prefix))
        if stretch.missing:
            yield from self._unreadable(end, f"{where}: {GONE}")
            return
        try:
            if reason := source.changed_unseen(stretch):
                yield from self._unreadable(end, f"{where}: {reason}")
            else:
                yield from self._pieces(stretch, end)
        except READ_ERRORS as error:
            yield from self._unreadable(end, str(error))

    def _pieces(self, stretch: SegmentExtent, end: int) -> Iterator[Item]:
        """Records, and the reason where records may be missing between them.

        Damage is reported once the offset of the next record is known.
        """
        lost: LeftOut | None = None
        for number, piece in enumerate(pieces_of(self._source.folder, stretch, self._at)):
            if number % LOOK_EVERY == 0:
                self._reading.go_on()
            if isinstance(piece, LeftOut):
                lost = piece if piece.damage else lost
                continue
            record = piece.record
            if lost is not None:
                yield from self._unreadable(record.offset, str(lost))
                lost = None
            if record.offset >= self._end:
                self._at = self._end
                return
            if record.offset >= self._at:
                self._at = record.offset + 1
                yield entry_of(record, self._reading.keep, self._source.epoch_at(record.offset))
        if lost is not None and lost.start_offset is not None:
            yield from self._unreadable(
                end if lost.end_offset is None else min(end, lost.end_offset), str(lost)
            )


MARK_EVERY = 1_000
"""Number of commands between two marks from which the file can be read."""
MOST_NOTES = 20


@dataclass(frozen=True, slots=True)
class CommandMark:
    """Where the command at a position begins in the file."""

    position: int
    line: int
    byte: int


@dataclass(frozen=True, slots=True)
class MetastoreSource:
    """The commands that were in the file when it was opened."""

    name: str
    path: Path
    extent: Extent
    marks: tuple[CommandMark, ...]
    left_out: tuple[str, ...]
    """Lines that are not commands, with the reason."""

    def read(self, start: int, end: int, reading: Reading) -> Iterator[RecordEntry]:
        asked = self.extent.within(start, end)
        if asked.start >= asked.end:
            return
        mark = self.marks[(asked.start - 1) // MARK_EVERY]
        position = mark.position
        with storage_errors(str(self.path)), open_regular(self.path) as file:
            file.seek(mark.byte)
            for number, line in enumerate(read_lines(file, mark.line, mark.byte)):
                if number % LOOK_EVERY == 0:
                    reading.go_on()
                if not line.usable:
                    continue
                if position >= asked.end:
                    return
                if position >= asked.start:
                    yield command(position, line.key, line.value, reading.keep)
                position += 1

    def raw_log(self, start: int, end: int, reading: Reading) -> None:
        """None: the bytes of a line do not show its position."""


def command(position: int, key: bytes | None, value: bytes | None, keep: Keep) -> RecordEntry:
    """A command as a line has it: only key and value, with null written as empty text."""
    return RecordEntry(
        position,
        None,
        TimestampType.NONE,
        None,
        content_of(key or b"", keep.value),
        content_of(value or b"", keep.value),
    )


def open_metastore(name: str, path: Path) -> MetastoreSource:
    """The backup at *path*, called *name*.

    Raises:
        UsageError: the file does not exist.
        StorageError: the file cannot be read.
    """
    if not path.is_file():
        raise UsageError(f"{path} is no file: name the backup of a metastore.")
    marks: list[CommandMark] = []
    notes: list[str] = []
    count = 0
    with storage_errors(str(path)), open_regular(path) as file:
        for line in read_lines(file):
            if line.usable:
                if count % MARK_EVERY == 0:
                    marks.append(CommandMark(count + 1, line.number, line.start))
                count += 1
            elif len(notes) < MOST_NOTES and line.problem is not LineProblem.BLANK:
                place = f"{path}, line {line.number}, byte {line.start}"
                notes.append(f"{place}: {line.problem}; it is no command")
    return MetastoreSource(name, path, Extent(1, count + 1), tuple(marks), tuple(notes))
