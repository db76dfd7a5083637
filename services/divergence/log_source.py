"""A broker's own log folder as a source: record batches read from disk, without the broker.

Only ever opened for reading. The folder is named TOPIC-PARTITION and holds segments
``00000000000000000000.log``, each with a sparse index beside it.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from breakglass.services.divergence.batch_tape import (
    Batches,
    BatchTape,
    first_reaching,
    whole_batches,
)
from breakglass.services.divergence.entry import Item, RecordEntry, UnreadableRange
from breakglass.services.divergence.log_index import LogIndex
from breakglass.services.divergence.replica_source import entries_of
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.errors import MalformedMessage, StorageError, UsageError
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.batch_header import BATCH_HEADER, BatchHeader, read_headers
from breakglass.services.topic_backup.batches import RecordBatch, decode_batch
from breakglass.services.topic_backup.folder import storage_errors

_SEGMENT = re.compile(r"([0-9]{20})\.log", re.ASCII)
_INDEX = re.compile(r"([0-9]{20})\.index", re.ASCII)
CHUNK_BYTES, FIRST_CHUNK_BYTES = 1024 * 1024, 64 * 1024
"""Of whole batches that are read at once, to be compared as bytes."""
MAX_BATCH_BYTES = 128 * 1024 * 1024
"""No batch is read that claims more."""
READ_ERRORS = (MalformedMessage, StorageError)


@dataclass(frozen=True, slots=True)
class LogSegment:
    """One ``.log`` file."""

    path: Path
    base_offset: int

    def index(self) -> LogIndex:
        """Where batches lie in it."""
        return LogIndex(self.path.with_suffix(".index"), self.base_offset)


@dataclass(frozen=True)
class LogSource:
    """A log folder, in the extent it had when it was opened."""

    name: str
    segments: tuple[LogSegment, ...]
    """By base offset."""
    extent: Extent

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The records in ``[start, end)``, markers of transactions among them.

        A damaged batch is `UnreadableRange`, up to the next one if its length can be believed, else
        up to where the index knows of one, or to the next segment.
        """
        asked = self.extent.within(start, end)
        return _Walk(self, asked, reading, partial(_entries, reading), _address).items()

    def whole_batches(
        self, start: int, reading: Reading
    ) -> Iterator[RecordBatch | UnreadableRange]:
        """All that can be read from *start* on, batch by batch, with its damage as `read` has it.

        The first batch may begin before.
        """
        asked = self.extent.within(start, self.extent.end)
        return _Walk(self, asked, reading, _batch_alone, _last_offset).items()

    def damaged_end(self) -> str:
        """What is wrong with the bytes behind the last batch; empty where there are none.

        A broker that was killed leaves a torn batch there, and cuts it off when it starts.
        """
        segment = self.segments[-1]
        last = segment.index().last
        position = last.position if last else 0
        try:
            with storage_errors(str(segment.path)), open_regular(segment.path) as file:
                while (header := _header_at(file, position, segment.path)) is not None:
                    position += header.size
        except READ_ERRORS as error:
            return str(error)
        return ""

    def tape(self, start: int, end: int, reading: Reading) -> BatchTape:
        """Its files from the batch that holds *start* on."""
        asked = self.extent.within(start, end)
        return BatchTape(self._batches(asked, reading), asked.end, reading.plain)

    def _batches(self, asked: Extent, reading: Reading) -> Iterator[Batches]:
        """Whole batches from the one on that holds the first address; ends at what is none."""
        for place in range(self.first_needed(asked.start), len(self.segments)):
            segment = self.segments[place]
            if segment.base_offset >= asked.end:
                return
            try:
                with storage_errors(str(segment.path)), open_regular(segment.path) as file:
                    yield from _batches(file, segment.index(), asked.start, reading)
            except StorageError:
                return

    def first_needed(self, start: int) -> int:
        """The segment that *start* lies in, or behind."""
        return max(bisect_right(self._starts, start) - 1, 0)

    def next_start(self, place: int) -> int:
        """The first offset of the segment behind that one; the end where there is none."""
        following = self.segments[place + 1 : place + 2]
        return following[0].base_offset if following else self.extent.end

    @cached_property
    def _starts(self) -> list[int]:
        return [one.base_offset for one in self.segments]


def open_log(name: str, path: Path) -> LogSource:
    """The log in the folder *path*, called *name*.

    Raises:
        UsageError: it is no log folder.
        StorageError: it cannot be listed or read.
    """
    if not path.is_dir():
        raise UsageError(f"{path} is no folder: name a broker's log dir and TOPIC-PARTITION in it.")
    with storage_errors(str(path)):
        names = {one.name for one in path.iterdir()}
    there = sorted(names | _gone(names))
    segments = tuple(
        LogSegment(path / one, int(match[1])) for one in there if (match := _SEGMENT.fullmatch(one))
    )
    if not segments:
        raise UsageError(f"{path} holds no log segments: name a broker's folder of one partition.")
    start = segments[0].base_offset
    return LogSource(name, segments, Extent(start, max(start, _end(segments))))


def _gone(names: Collection[str]) -> set[str]:
    """Segments whose index is there and whose log is not.

    A broker renames the log first when it deletes a segment, and removes such an index when it
    starts.
    """
    logs = {f"{match[1]}.log" for name in names if (match := _INDEX.fullmatch(name))}
    return {log for log in logs if log not in names and f"{log}.deleted" not in names}


def _batches(file: BinaryIO, index: LogIndex, start: int, reading: Reading) -> Iterator[Batches]:
    position, size = index.before(start), FIRST_CHUNK_BYTES
    while True:
        reading.go_on()
        file.seek(position)
        data = file.read(size)
        whole = whole_batches(data)
        if not whole.size:
            if not size < whole.needed <= MAX_BATCH_BYTES:
                return
            size = whole.needed
            continue
        position, size = position + whole.size, CHUNK_BYTES
        begin = first_reaching(data, whole.size, start) if start else 0
        if begin < whole.size:
            start = 0
            yield Batches(data, begin, whole.size)


def _end(segments: tuple[LogSegment, ...]) -> int:
    """One past the last offset: of the last batch that can be found in the last segment."""
    for segment in reversed(segments):
        end = segment.base_offset
        last = segment.index().last
        position = last.position if last else 0
        try:
            with storage_errors(str(segment.path)), open_regular(segment.path) as file:
                while (header := _header_at(file, position, segment.path)) is not None:
                    end = max(end, header.next_offset)
                    position += header.size
        except READ_ERRORS:
            # What its index names was there.
            pass
        if last is not None:
            end = max(end, last.offset + 1)
        if end > segment.base_offset:
            return end
    return segments[-1].base_offset


def _header_at(file: BinaryIO, position: int, path: Path) -> BatchHeader | None:
    """The header of the batch at that byte; None at the end, or where only zeros follow.

    Raises:
        MalformedMessage: the bytes are no batch.
    """
    file.seek(position)
    head = file.read(BATCH_HEADER.size)
    if not any(head):
        return None
    where = f"{path}, byte {position}"
    if len(head) < BATCH_HEADER.size:
        raise MalformedMessage(f"{where}: a batch is torn; the broker cuts it off at its start.")
    size = _claimed(head)
    if not BATCH_HEADER.size <= size <= MAX_BATCH_BYTES:
        raise MalformedMessage(f"{where}: a batch claims {size:,} bytes; its length is damaged.")
    # The rest stays on disk: zeros in its place satisfy what looks at lengths alone.
    headers = read_headers(head + bytes(size - BATCH_HEADER.size), where).headers
    if not headers:
        raise MalformedMessage(f"{where}: these bytes are no batch of message format 2.")
    return headers[0]


def _claimed(head: bytes) -> int:
    """Bytes of the batch, its first two fields included."""
    (length,) = struct.unpack_from(">i", head, 8)
    return int(length) + 12


T = TypeVar("T", RecordEntry, RecordBatch)
Decode = Callable[[bytes, BatchHeader, str], Sequence[T]]
"""What is told of one batch, whose bytes and header are given. Raises MalformedMessage."""


class _Walk(Generic[T]):
    """One pass over a stretch of a log; `_at` is the next offset to be told of."""

    def __init__(
        self,
        source: LogSource,
        asked: Extent,
        reading: Reading,
        decode: Decode[T],
        address: Callable[[T], int],
    ) -> None:
        self._source, self._reading = source, reading
        self._at, self._end = asked.start, asked.end
        self._decode: Decode[T] = decode
        self._address: Callable[[T], int] = address
        self._lowest = 0
        """No batch that follows may begin before it."""

    def items(self) -> Iterator[T | UnreadableRange]:
        place = self._source.first_needed(self._at)
        while place < len(self._source.segments) and self._at < self._end:
            segment = self._source.segments[place]
            if segment.base_offset >= self._end:
                return
            try:
                with storage_errors(str(segment.path)), open_regular(segment.path) as file:
                    yield from self._segment(file, segment, place)
            except StorageError as error:
                yield from self._unreadable(self._source.next_start(place), str(error))
            place += 1

    def _segment(
        self, file: BinaryIO, segment: LogSegment, place: int
    ) -> Iterator[T | UnreadableRange]:
        known = segment.index()
        position = self._begin(file, known, segment)
        while self._at < self._end:
            self._reading.go_on()
            try:
                header = _header_at(file, position, segment.path)
                if header is not None:
                    self._require_between(header, known, position, place)
            except MalformedMessage as error:
                found = self._behind(file, known, position, segment)
                end = found[0] if found else self._source.next_start(place)
                yield from self._unreadable(end, str(error))
                if found is None:
                    return
                self._lowest, position = found
                continue
            if header is None:
                return
            if header.next_offset > self._at:
                yield from self._batch(file, header, position, segment)
            self._lowest = header.next_offset
            position += header.size

    def _begin(self, file: BinaryIO, known: LogIndex, segment: LogSegment) -> int:
        """Where to begin in *segment*: as its index says, if a batch that is no later is there."""
        position = known.before(self._at)
        try:
            header = _header_at(file, position, segment.path) if position else None
        except MalformedMessage:
            header = None
        return position if header is not None and header.base_offset <= self._at else 0

    def _require_between(
        self, header: BatchHeader, known: LogIndex, position: int, place: int
    ) -> None:
        """Offsets are not in a batch's checksum: those of its neighbours tell.

        Raises:
            MalformedMessage: it cannot stand where it does.
        """
        segment = self._source.segments[place]
        limit = max(self._source.next_start(place), 1)
        lowest = max(segment.base_offset, self._lowest)
        if header.base_offset != lowest:
            # It does not go on where the one before ended: what the index says has to bear it out.
            limit = next((one.offset for one in known.behind(position)), limit)
        if not lowest <= header.base_offset <= header.last_offset < limit:
            raise MalformedMessage(
                f"{segment.path}, byte {position}: a batch claims offsets {header.base_offset} to "
                f"{header.last_offset}, which cannot stand there."
            )

    def _behind(
        self, file: BinaryIO, known: LogIndex, position: int, segment: LogSegment
    ) -> tuple[int, int] | None:
        """First offset and position of a batch behind that byte, by the index."""
        for _, at in known.behind(position):
            try:
                header = _header_at(file, at, segment.path)
            except MalformedMessage:
                continue
            if header is not None and header.base_offset >= self._at:
                return header.base_offset, at
        return None

    def _batch(
        self, file: BinaryIO, header: BatchHeader, position: int, segment: LogSegment
    ) -> Iterator[T | UnreadableRange]:
        file.seek(position)
        data = file.read(header.size)
        where = str(segment.path)
        try:
            (whole,) = read_headers(data, where).headers or (None,)
            if whole is None:
                raise MalformedMessage(f"{where}, byte {position}: the batch is torn.")
            told = self._decode(data, whole, where)
        except MalformedMessage as error:
            end = max(header.next_offset, self._at + 1)
            yield from self._unreadable(end, str(error))
            return
        for one in told:
            address = self._address(one)
            if self._at <= address < self._end:
                self._at = address + 1
                yield one
        self._at = max(self._at, min(header.next_offset, self._end))

    def _unreadable(self, end: int, reason: str) -> Iterator[UnreadableRange]:
        end = min(end, self._end)
        if self._at < end:
            yield UnreadableRange(self._at, end, reason)
            self._at = end


def _entries(
    reading: Reading, data: bytes, header: BatchHeader, where: str
) -> Sequence[RecordEntry]:
    return entries_of(data, header, where, reading.keep)


def _address(entry: RecordEntry) -> int:
    return entry.offset


def _batch_alone(data: bytes, header: BatchHeader, where: str) -> Sequence[RecordBatch]:
    return (decode_batch(data, header, where),)


def _last_offset(batch: RecordBatch) -> int:
    return batch.header.last_offset
