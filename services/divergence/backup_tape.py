"""The records of a backup as a tape: which record a byte belongs to is told by the indexes.

A record takes the same bytes in whatever segment it lies, so segments need not be cut alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from services.divergence.source import Extent, Reading
from services.divergence.tape import Form, Reach
from services.errors import DamagedBackup, StorageError, UnsupportedSchema
from services.topic_backup.extent import Extent as Stretch
from services.topic_backup.folder import Folder
from services.topic_backup.layout import records_name
from services.topic_backup.segment_index import SegmentIndex, open_index
from services.topic_backup.summary import EpochStart

PIECE_BYTES = 1024 * 1024
UNREADABLE = (StorageError, DamagedBackup, UnsupportedSchema)


@dataclass(frozen=True, slots=True)
class RecordsPiece:
    """Whole records of one segment."""

    data: bytes
    position: int
    """Of the first, in the records file."""
    index: SegmentIndex

    @property
    def begin(self) -> int:
        return 0

    @property
    def end(self) -> int:
        return len(self.data)

    def reach(self, begin: int, end: int, at: int) -> Reach:
        """How far the index says that records reach."""
        before = self.index.count_within(self.position + begin)
        held = self.index.count_within(self.position + end)
        if held == before:
            return Reach(at, 0, begin == end)
        last = self.index[held - 1]
        whole = last.end == self.position + end
        return Reach(max(at, last.offset + 1), held - before, whole)


@dataclass(frozen=True, slots=True)
class BackupTape:
    """The records of some segments, as far as they are of the addresses of *asked*."""

    folder: Folder
    stretches: Sequence[Stretch]
    asked: Extent
    reading: Reading
    epochs: tuple[EpochStart, ...] = ()
    """Leader epochs are not in the bytes: what the manifest knows of them."""
    form: Form = Form.RECORDS

    def pieces(self) -> Iterator[RecordsPiece]:
        """About a megabyte each. Ends where a segment has no index, or cannot be read."""
        try:
            for stretch in self.stretches:
                if stretch.start_offset >= self.asked.end:
                    return
                index = open_index(self.folder, stretch.prefix)
                if index is None:
                    return
                with index:
                    yield from self._segment(stretch, index)
        except UNREADABLE:
            return

    def _segment(self, stretch: Stretch, index: SegmentIndex) -> Iterator[RecordsPiece]:
        name = records_name(stretch.prefix)
        size = self.folder.size(name) or 0
        size = size if stretch.end is None else min(size, stretch.end)
        first, last = index.first_from(self.asked.start), index.first_from(self.asked.end)
        last = min(last, index.count_within(size))
        with self.folder.open(name) as file:
            while first < last:
                self.reading.go_on()
                position = index[first].position
                following = max(index.count_within(position + PIECE_BYTES), first + 1)
                following = min(following, last)
                length = index[following - 1].end - position
                file.seek(position)
                data = file.read(length)
                if len(data) < length:
                    return
                yield RecordsPiece(data, position, index)
                first = following
