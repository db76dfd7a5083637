"""Reads a broker's own log folder as a source: record batches from disk, without the broker.

The folder is only opened for reading. It is named TOPIC-PARTITION and has segments named
``00000000000000000000.log``, each with a sparse index beside it.

Searches the sparse offset index of one segment of a broker's log.

::

    Entry =>
      RelativeOffset => int32   from the segment's first offset
      Position       => int32   in the .log file; batches rise from entry to entry

Source: OffsetIndex.java, LogSegment.java. A preallocated index ends with zeros.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Generic, NamedTuple, TypeVar

from breakglass.services.divergence.replica_source import (
    BatchPiece,
    entries_of,
    first_reaching,
    whole_batches,
)
from breakglass.services.divergence.source import (
    Extent,
    Item,
    RawForm,
    RawLog,
    Reading,
    RecordEntry,
    SourceWalk,
    UnreadableRange,
)
from breakglass.services.errors import (
    BreakglassError,
    MalformedInput,
    MalformedMessage,
    StorageError,
    UsageError,
)
from breakglass.services.record_batches import (
    BATCH_HEADER,
    BatchHeader,
    RecordBatch,
    decode_batch,
    read_headers,
)
from breakglass.services.regular_file import open_regular, read_regular
from breakglass.services.topic_backup.folder import storage_errors
from breakglass.services.topic_backup.layout import MAX_INT64

MOST_BYTES = 1024 * 1024 * 1024
"""No index is larger: the default of segment.index.bytes is 10 MB."""
INDEX_ENTRY = struct.Struct(
    ">i"  # RelativeOffset => int32
    "i"  # Position       => int32
)


class Indexed(NamedTuple):
    """The position of the batch that contains an offset."""

    offset: int
    position: int


class LogIndex:
    """Offsets and positions of some batches, rising; empty without a usable index."""

    def __init__(self, path: Path, base_offset: int) -> None:
        """Read the index at *path*; a missing file is an empty index."""
        try:
            self._content = read_regular(path, MOST_BYTES)
        except OSError:
            self._content = b""
        self._base_offset = base_offset
        written = range(len(self._content) // INDEX_ENTRY.size)
        self._count = bisect_left(written, True, key=lambda number: not self[number].position)
        self.claimed = self.last
        """The last entry, before stale ones were dropped."""

    def __len__(self) -> int:
        return self._count

    def drop_stale(self, is_there: Callable[[Indexed], bool]) -> None:
        """Drop the last entries, as far as no batch is there.

        A broker that truncates a log only counts its entries down: after a kill the file still has
        the old ones after those of what was written since (OffsetIndex.truncateToEntries).
        """
        while self._count and not is_there(self[self._count - 1]):
            self._count -= 1

    def __getitem__(self, number: int) -> Indexed:
        relative, position = INDEX_ENTRY.unpack_from(self._content, number * INDEX_ENTRY.size)
        return Indexed(self._base_offset + int(relative), int(position))

    @property
    def last(self) -> Indexed | None:
        """The last entry, if it is plausible."""
        return self[self._count - 1] if self._count and self._rises(self._count - 1) else None

    def before(self, offset: int) -> int:
        """A position at or before the batch that contains *offset*; 0 if the index has none."""
        place = bisect_right(self, offset, 0, self._count, key=lambda indexed: indexed.offset) - 1
        return self[place].position if place >= 0 and self._rises(place) else 0

    def behind(self, position: int) -> Iterator[Indexed]:
        """The plausible entries of batches after *position*."""
        first = bisect_right(self, position, 0, self._count, key=lambda indexed: indexed.position)
        for number in range(first, self._count):
            if self._rises(number):
                yield self[number]

    def _rises(self, number: int) -> bool:
        """Whether an entry lies between its neighbours; a damaged entry rarely does."""
        around = [self[one] for one in (number - 1, number, number + 1) if 0 <= one < self._count]
        return all(
            one.offset < other.offset and 0 <= one.position < other.position
            for one, other in pairwise(around)
        )


_SEGMENT = re.compile(r"([0-9]{20})\.log", re.ASCII)
_INDEX = re.compile(r"([0-9]{20})\.index", re.ASCII)
CHUNK_BYTES, FIRST_CHUNK_BYTES = 1024 * 1024, 64 * 1024
"""Bytes of whole batches that are read at once, to be compared as bytes."""
RELATIVE = 2**31 - 1
"""How far an offset may be from the one that its segment is named for (LogSegment.append)."""
MAX_BATCH_BYTES = 128 * 1024 * 1024
"""A batch that claims a larger size is not read."""
READ_ERRORS = (MalformedMessage, StorageError)


@dataclass(frozen=True, slots=True)
class LogSegment:
    """One ``.log`` file."""

    path: Path
    base_offset: int

    def index(self) -> LogIndex:
        """The index of the segment, up to the last entry that names a batch which is there."""
        index = LogIndex(self.path.with_suffix(".index"), self.base_offset)
        with suppress(BreakglassError, OSError), open_regular(self.path) as file:
            index.drop_stale(lambda entry: _is_there(file, entry, self.path))
        return index

    def last_headers(self, index: LogIndex) -> Iterator[tuple[BatchHeader, int]]:
        """Each header from the last batch that *index* names on, and where its batch ends.

        Raises: READ_ERRORS.
        """
        return self.headers(index.last.position if index.last else 0)

    def headers(self, position: int) -> Iterator[tuple[BatchHeader, int]]:
        """As `last_headers`, from the batch at *position* on."""
        with storage_errors(str(self.path)), open_regular(self.path) as file:
            while (header := _header_at(file, position, self.path)) is not None:
                position += header.size
                yield header, position


@dataclass(frozen=True)
class LogSource:
    """A log folder, in the extent it had when it was opened."""

    name: str
    segments: tuple[LogSegment, ...]
    """The segments by base offset."""
    extent: Extent

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """The records in ``[start, end)``, markers of transactions among them.

        A damaged batch is `UnreadableRange`: up to the next batch if its length is plausible, else
        up to the next batch that the index names, or to the next segment.
        """
        asked = self.extent.within(start, end)

        def decode(data: bytes, header: BatchHeader, where: str) -> Sequence[RecordEntry]:
            return entries_of(data, header, where, reading.keep)

        return _Walk(self, asked, reading, decode, lambda entry: entry.offset).items()

    def whole_batches(
        self, start: int, reading: Reading
    ) -> Iterator[RecordBatch | UnreadableRange]:
        """All readable batches from *start* on, and damage as `read` reports it.

        The first batch may begin before *start*.
        """
        asked = self.extent.within(start, self.extent.end)

        def decode(data: bytes, header: BatchHeader, where: str) -> Sequence[RecordBatch]:
            return (decode_batch(data, header, where),)

        return _Walk(self, asked, reading, decode, lambda batch: batch.header.last_offset).items()

    def damaged_end(self) -> str:
        """What is wrong with the bytes after the last batch; empty if there are none.

        A killed broker leaves a torn batch there, and truncates it when it starts.
        """
        segment = self.segments[-1]
        try:
            deque(segment.last_headers(segment.index()), maxlen=0)
        except READ_ERRORS as error:
            return str(error)
        return ""

    def torn_at(self) -> int | None:
        """Where a batch begins whose last bytes are missing; None if the last batch is whole.

        Nobody can read the records of a torn batch, and a broker truncates it when it starts.
        """
        segment = self.segments[-1]
        # Where not even the batch's header is whole, the log's extent ends before the batch.
        with suppress(*READ_ERRORS):
            with storage_errors(str(segment.path)):
                size = segment.path.stat().st_size
            for header, end in segment.last_headers(segment.index()):
                if end > size:
                    return header.base_offset
        return None

    def raw_log(self, start: int, end: int, reading: Reading) -> RawLog:
        """The files from the batch that contains *start* on."""
        return RawLog(RawForm.BATCHES, self._batches(self.extent.within(start, end), reading))

    def _batches(self, asked: Extent, reading: Reading) -> Iterator[BatchPiece]:
        """Whole batches from the batch that contains the first address; ends at other bytes."""
        for place in range(self.first_needed(asked.start), len(self.segments)):
            segment = self.segments[place]
            if segment.base_offset >= asked.end:
                return
            try:
                with storage_errors(str(segment.path)), open_regular(segment.path) as file:
                    yield from _batches(file, segment.index(), asked, reading)
            except StorageError:
                return

    def first_needed(self, start: int) -> int:
        """The segment that contains *start*, or else the last one before *start*."""
        return max(bisect_right(self._starts, start) - 1, 0)

    def next_start(self, place: int) -> int:
        """The first offset of the following segment; the log's end after the last segment."""
        following = self.segments[place + 1 : place + 2]
        return following[0].base_offset if following else self.extent.end

    @cached_property
    def _starts(self) -> list[int]:
        return [segment.base_offset for segment in self.segments]


def open_log(name: str, path: Path) -> LogSource:
    """The log in the folder *path*, called *name*.

    Raises:
        UsageError: *path* is not a log folder.
        MalformedInput: a segment has a name that no broker gives.
        StorageError: the folder cannot be listed or read.
    """
    if not path.is_dir():
        raise UsageError(f"{path} is no folder: name a broker's log dir and TOPIC-PARTITION in it.")
    with storage_errors(str(path)):
        names = {one.name for one in path.iterdir()}
    there = sorted(names | _gone(names))
    segments = tuple(
        LogSegment(path / text, int(match[1]))
        for text in there
        if (match := _SEGMENT.fullmatch(text))
    )
    if beyond := [one for one in segments if one.base_offset > MAX_INT64]:
        raise MalformedInput(
            f"{beyond[0].path}: no offset is that large, so it is no segment of a broker: find out "
            "who put it there, and take it out of the folder"
        )
    if not segments:
        raise UsageError(f"{path} holds no log segments: name a broker's folder of one partition.")
    start = segments[0].base_offset
    return LogSource(name, segments, Extent(start, max(start, _end(segments))))


def _gone(names: Collection[str]) -> set[str]:
    """Segments whose index exists and whose log is missing.

    A broker that deletes a segment renames the log first. It removes an index without a log when
    it starts.
    """
    logs = {f"{match[1]}.log" for name in names if (match := _INDEX.fullmatch(name))}
    return {log for log in logs if log not in names and f"{log}.deleted" not in names}


def _batches(
    file: BinaryIO, index: LogIndex, asked: Extent, reading: Reading
) -> Iterator[BatchPiece]:
    start = asked.start
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
            yield BatchPiece(data, begin, whole.size, asked.end, reading.plain)


def _end(segments: tuple[LogSegment, ...]) -> int:
    """One past the last offset of the last batch that is found in the last segment."""
    for segment in reversed(segments):
        end = segment.base_offset
        index = segment.index()
        try:
            for header, _ in segment.last_headers(index):
                end = max(end, header.next_offset)
            damaged = end == segment.base_offset
        except READ_ERRORS:
            damaged = True
        if damaged and index.claimed is not None:
            # The index names a batch after the damage, or of a log without any: it had that batch.
            end = max(end, index.claimed.offset + 1)
        if end > segment.base_offset:
            return end
    return segments[-1].base_offset


def _is_there(file: BinaryIO, entry: Indexed, path: Path) -> bool:
    """Whether the batch that *entry* names begins at its position."""
    try:
        header = _header_at(file, entry.position, path)
    except READ_ERRORS:
        return False
    # A follower of Kafka 3.9 indexes the last offset of several batches that it appended at once.
    return header is not None and header.base_offset <= entry.offset


def _header_at(file: BinaryIO, position: int, path: Path) -> BatchHeader | None:
    """The header of the batch at *position*; None at the end, or where only zeros follow.

    Raises:
        MalformedMessage: the bytes are not a batch.
    """
    file.seek(position)
    head = file.read(BATCH_HEADER.size)
    if not any(head):
        return None
    where = f"{path}, byte {position}"
    if len(head) < BATCH_HEADER.size:
        raise MalformedMessage(f"{where}: a batch is torn; the broker cuts it off at its start.")
    # Length that the batch claims, its first two fields included.
    (length,) = struct.unpack_from(">i", head, 8)
    size = int(length) + 12
    if not BATCH_HEADER.size <= size <= MAX_BATCH_BYTES:
        raise MalformedMessage(f"{where}: a batch claims {size:,} bytes; its length is damaged.")
    # The records stay on disk: the header parser checks only their length, so zeros do.
    headers = read_headers(head + bytes(size - BATCH_HEADER.size), where).headers
    if not headers:
        raise MalformedMessage(f"{where}: these bytes are no batch of message format 2.")
    (header,) = headers
    first = int(path.stem)
    if (
        not first
        <= header.base_offset
        <= header.last_offset
        <= min(first + RELATIVE, MAX_INT64 - 1)
    ):
        raise MalformedMessage(
            f"{where}: a batch claims offsets {header.base_offset} to {header.last_offset}, which "
            "no batch of this segment has."
        )
    return header


T = TypeVar("T", RecordEntry, RecordBatch)
Decode = Callable[[bytes, BatchHeader, str], Sequence[T]]
"""Decodes one batch from its bytes and its header. Raises MalformedMessage."""


class _Walk(SourceWalk, Generic[T]):
    """One pass over a stretch of a log."""

    def __init__(
        self,
        source: LogSource,
        asked: Extent,
        reading: Reading,
        decode: Decode[T],
        address: Callable[[T], int],
    ) -> None:
        super().__init__(asked, reading)
        self._source = source
        self._decode: Decode[T] = decode
        self._address: Callable[[T], int] = address
        self._lowest = 0
        """No following batch may begin before this offset."""

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
        if place == len(self._source.segments):
            # Only an index can have named what is not there.
            last = self._source.segments[-1].path
            yield from self._unreadable(self._end, f"{last}: it lacks batches that its index names")

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
        """Where to begin in *segment*: as its index says, if a batch not past `_at` is there."""
        position = known.before(self._at)
        try:
            header = _header_at(file, position, segment.path) if position else None
        except MalformedMessage:
            header = None
        return position if header is not None and header.base_offset <= self._at else 0

    def _require_between(
        self, header: BatchHeader, known: LogIndex, position: int, place: int
    ) -> None:
        """Check a batch's offsets by those of its neighbours: the CRC does not cover them.

        Raises:
            MalformedMessage: the batch's offsets do not fit between its neighbours'.
        """
        segment = self._source.segments[place]
        limit = max(self._source.next_start(place), 1)
        lowest = max(segment.base_offset, self._lowest)
        if header.base_offset != lowest:  # A gap after the previous batch: the index confirms it.
            limit = next((indexed.offset for indexed in known.behind(position)), limit)
        if not lowest <= header.base_offset <= header.last_offset < limit:
            raise MalformedMessage(
                f"{segment.path}, byte {position}: a batch claims offsets {header.base_offset} to "
                f"{header.last_offset}, which cannot stand there."
            )

    def _behind(
        self, file: BinaryIO, known: LogIndex, position: int, segment: LogSegment
    ) -> tuple[int, int] | None:
        """First offset and position of a batch after *position*, by the index."""
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
        for entry in told:
            address = self._address(entry)
            if self._at <= address < self._end:
                self._at = address + 1
                yield entry
        self._at = max(self._at, min(header.next_offset, self._end))
