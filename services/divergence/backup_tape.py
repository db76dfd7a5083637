"""The records of a backup as a tape: which record a byte belongs to is told by the indexes.

A record takes the same bytes in whatever segment it lies, so segments need not be cut alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from breakglass.services.divergence.byte_source import Reach, TapeForm
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.errors import DamagedBackup, StorageError, UnsupportedSchema
from breakglass.services.topic_backup.extent import SegmentExtent
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import records_name
from breakglass.services.topic_backup.segment_index import SegmentIndex, open_index
from breakglass.services.topic_backup.summary import EpochStart

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
    stretches: Sequence[SegmentExtent]
    asked: Extent
    reading: Reading
    epochs: tuple[EpochStart, ...] = ()
    """Leader epochs are not in the bytes: what the manifest knows of them."""
    sound: Callable[[SegmentExtent], bool] = lambda _: True
    """Whether a segment is what was committed: equal damage on both sides proves nothing."""
    form: TapeForm = TapeForm.RECORDS

    def pieces(self) -> Iterator[RecordsPiece]:
        """About a megabyte each. Ends where a segment has no index, or is damaged."""
        try:
            for stretch in self.stretches:
                if stretch.start_offset >= self.asked.end or not self.sound(stretch):
                    return
                index = open_index(self.folder, stretch.prefix)
                if index is None:
                    return
                with index:
                    if self._is_cut(stretch, index):
                        return
                    yield from self._segment(stretch, index)
        except UNREADABLE:
            return

    def _segment(self, stretch: SegmentExtent, index: SegmentIndex) -> Iterator[RecordsPiece]:
        name = records_name(stretch.prefix)
        first, last = index.first_from(self.asked.start), index.first_from(self.asked.end)
        last = min(last, index.count_within(self._size(stretch)))
        with self.folder.open(name) as file:
            while first < last:
                self.reading.go_on()
                position = index[first].position
                following = max(index.count_within(position + PIECE_BYTES), first + 1)
                following = min(following, last)
                length = index[following - 1].end - position
                file.seek(position)
                data = file.read(length)
                if len(data) < length or not _is_named(data, index, first, following - 1):
                    return
                yield RecordsPiece(data, position, index)
                first = following

    def _is_cut(self, stretch: SegmentExtent, index: SegmentIndex) -> bool:
        """Whether the index names records beyond the end of the file."""
        size = self.folder.size(records_name(stretch.prefix)) or 0
        return index.last is not None and index.last.end > size

    def _size(self, stretch: SegmentExtent) -> int:
        """Bytes of the records file that are there and part of the backup."""
        size = self.folder.size(records_name(stretch.prefix)) or 0
        return size if stretch.end is None else min(size, stretch.end)


def _is_named(data: bytes, index: SegmentIndex, first: int, last: int) -> bool:
    """Whether the first and the last record of *data* have the offsets that the index names.

    Without a manifest nothing else tells of a file that was replaced.
    """
    start = index[first].position
    places = ((index[number].position - start, index[number].offset) for number in (first, last))
    return all(int.from_bytes(data[at : at + 8], signed=True) == offset for at, offset in places)
