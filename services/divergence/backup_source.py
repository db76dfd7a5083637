"""One partition of a topic backup as a source: by its indexes, past whatever is damaged."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

from breakglass.services.divergence.backup_tape import BackupTape
from breakglass.services.divergence.content import Keep, content_of, headers_of
from breakglass.services.divergence.entry import Item, RecordEntry, UnreadableRange
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.errors import DamagedBackup, StorageError, UnsupportedSchema
from breakglass.services.topic_backup.extent import SegmentExtent
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import records_name
from breakglass.services.topic_backup.reader import (
    IN_DOUBT,
    LeftOut,
    SegmentAt,
    pieces_of,
    summary_at,
)
from breakglass.services.topic_backup.record import Record
from breakglass.services.topic_backup.salvage.finding import FoundRecord
from breakglass.services.topic_backup.soundness import OTHER_BYTES, altered, remembered
from breakglass.services.topic_backup.summary import EpochStart

LOOK_EVERY = 64
"""Records between two questions whether to go on."""
GONE = "the manifest has this segment, the folder has not; take the file from another copy"
READ_ERRORS = (DamagedBackup, StorageError, UnsupportedSchema)


@dataclass(frozen=True)
class BackupSource:
    """A partition of a backup, in the extent that it had when it was opened."""

    name: str
    folder: Folder
    partition: int
    stretches: tuple[SegmentExtent, ...]
    """How far each segment is to be read, by offset."""
    extent: Extent
    epochs: tuple[EpochStart, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    """Bytes of its files that are no part of the backup."""
    gone: frozenset[str] = frozenset()
    """Prefixes of segments that the manifest has and the folder has not."""
    segments: Mapping[int, SegmentAt] = field(default_factory=dict)
    """By start offset."""

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The records in ``[start, end)``; what cannot be proved is `UnreadableRange`."""
        asked = self.extent.within(start, end)
        return _Walk(self, asked.start, asked.end, reading).items()

    def tape(self, start: int, end: int, reading: Reading) -> BackupTape:
        """Its files from the record at *start* on."""
        asked = self.extent.within(start, end)
        needed = self.stretches[self.first_needed(start) :]
        stretches = tuple(takewhile(lambda one: one.prefix not in self.gone, needed))
        return BackupTape(self.folder, stretches, asked, reading, self.epochs, self._is_sound)

    def pieces(self, stretch: SegmentExtent, start: int) -> Iterator[FoundRecord | LeftOut]:
        """The records of one segment from offset *start* on, and what of it cannot be read.

        Raises: READ_ERRORS.
        """
        segment = self.segments[stretch.start_offset]
        yield from pieces_of(self.folder, segment, start)

    def changed_unseen(self, stretch: SegmentExtent) -> str:
        """Why none of its records can be believed, where all of them have the right form.

        Then nobody can tell which of them was changed.
        """
        segment = self.segments[stretch.start_offset]
        if segment.summary is None or segment.missing:
            return ""
        summary = summary_at(segment.summary, segment.extent)
        if altered(self.folder, summary) != OTHER_BYTES:
            return ""
        return remembered(self.folder, summary, "in doubt", lambda: self._doubt(segment))

    def _doubt(self, segment: SegmentAt) -> str:
        pieces = pieces_of(self.folder, segment)
        reasons = (piece.reason for piece in pieces if isinstance(piece, LeftOut) and piece.damage)
        return next((reason for reason in reasons if reason.endswith(IN_DOUBT)), "")

    def _is_sound(self, stretch: SegmentExtent) -> bool:
        """Whether a segment is what was committed, as far as a manifest tells."""
        segment = self.segments[stretch.start_offset]
        if segment.summary is None or segment.missing:
            return not segment.missing
        return not altered(self.folder, summary_at(segment.summary, segment.extent))

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


def stored_entry(record: Record, epoch: int | None, keep: Keep) -> RecordEntry:
    """One record of a backup, held in a bounded number of bytes."""
    return RecordEntry(
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
        end = source.next_start(place)
        where = source.folder.where(records_name(stretch.prefix))
        if stretch.prefix in source.gone:
            yield from self._unreadable(end, f"{where}: {GONE}")
            return
        try:
            if (reason := source.changed_unseen(stretch)) != "":
                yield from self._unreadable(end, f"{where}: {reason}")
            else:
                yield from self._pieces(stretch, end)
        except READ_ERRORS as error:
            yield from self._unreadable(end, str(error))

    def _pieces(self, stretch: SegmentExtent, end: int) -> Iterator[Item]:
        """Records, and for what may be missing between them the reason.

        Damage is told once the offset of the next record is known.
        """
        lost: LeftOut | None = None
        for number, piece in enumerate(self._source.pieces(stretch, self._at)):
            if number % LOOK_EVERY == 0:
                self._reading.go_on()
            if isinstance(piece, LeftOut):
                lost = piece if piece.damage else lost
                continue
            record = piece.placed.record
            if lost is not None:
                yield from self._unreadable(record.offset, str(lost))
                lost = None
            if record.offset >= self._end:
                self._at = self._end
                return
            if record.offset >= self._at:
                self._at = record.offset + 1
                source = self._source
                yield stored_entry(record, source.epoch_at(record.offset), self._reading.keep)
        if lost is not None and lost.start_offset is not None:
            yield from self._unreadable(_end_of(lost, end), str(lost))

    def _unreadable(self, end: int, reason: str) -> Iterator[UnreadableRange]:
        end = min(end, self._end)
        if self._at < end:
            yield UnreadableRange(self._at, end, reason)
            self._at = end


def _end_of(lost: LeftOut, end: int) -> int:
    return end if lost.end_offset is None else min(end, lost.end_offset)
