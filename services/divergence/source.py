"""The compared sources: entries of bounded size in the order of their addresses, and raw bytes.

An entry keeps the beginning of a long value and a SHA-256 of the whole value, so that a value of
10 MB takes little memory and still compares exactly.

A source's bytes are a raw log: pieces of whole entries, each of which says how far the entries in
a stretch of bytes reach. Equal bytes are equal entries, so two raw logs of the same form are
compared at the speed of memory, without decoding.

Two texts are compared down to the character, in bounded time: common beginnings and ends are
removed first. The rest is compared word by word, and replaced words character by character. Where
that would take too long, the whole rest counts as different.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum, StrEnum, auto
from hashlib import sha256
from itertools import accumulate, starmap, zip_longest
from typing import NamedTuple, Protocol

from breakglass.services.record_batches import Headers, Marker, Record, TimestampType
from breakglass.services.topic_backup.summary import EpochStart

LENGTH = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class Keep:
    """How much of a record is kept in memory."""

    value: int
    """Bytes kept of each value, each key, and each header's key and value."""
    headers: int


ROWS = Keep(value=512, headers=8)
"""Enough for a line of a table: thousands of records are in memory at once."""
DETAIL = Keep(value=64 * 1024, headers=100)
"""For the details of a single record."""

NOTHING = Keep(value=0, headers=0)
"""For counting and locating records without showing them."""


@dataclass(frozen=True, slots=True)
class Content:
    """The kept part of some bytes.

    Two are equal exactly when all their bytes are, if both were kept by the same limit.
    """

    kept: bytes
    """The beginning of the bytes, or all of them."""
    size: int
    digest: bytes = b""
    """SHA-256 of all the bytes; empty if all are kept."""


@dataclass(frozen=True, slots=True)
class HeaderList:
    """The kept headers of a record.

    Two are equal exactly when all their headers are, if both were kept by the same limits.
    """

    kept: tuple[tuple[Content, Content | None], ...] = ()
    count: int = 0
    digest: bytes = b""
    """SHA-256 of all headers with their lengths; empty if *kept* has all headers."""

    @property
    def size(self) -> int:
        """Bytes of the kept headers."""
        return sum(key.size + (value.size if value else 0) for key, value in self.kept)


NO_HEADERS = HeaderList()


def content_of(whole: bytes | None, limit: int) -> Content | None:
    """Keep at most *limit* bytes of *whole*; null stays None."""
    if whole is None:
        return None
    if len(whole) <= limit:
        return Content(whole, len(whole))
    return Content(whole[:limit], len(whole), sha256(whole).digest())


def headers_of(headers: Headers, keep: Keep) -> HeaderList:
    """Keep the first of *headers*, each bounded as a value is."""
    if not headers:
        return NO_HEADERS
    limit = keep.value
    kept = tuple(
        (content_of(key, limit) or Content(b"", 0), content_of(value, limit))
        for key, value in headers[: keep.headers]
    )
    if len(kept) == len(headers):
        return HeaderList(kept, len(headers))
    # With lengths: two lists that merely join to the same bytes must not be equal.
    digest = sha256()
    for pair in headers:
        for part in pair:
            digest.update(LENGTH.pack(-1 if part is None else len(part)))
            digest.update(part or b"")
    return HeaderList(kept, len(headers), digest.digest())


NO_PRODUCER = -1


class RecordField(StrEnum):
    """What two entries at one address can differ in."""

    EPOCH = "epoch"
    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    TYPE = "type"
    """Type of the timestamp: set by the producer, or by the broker on append."""
    MARKER = "marker"
    """A record on one side and a transaction marker on the other, or two kinds of markers."""


class RecordEntry(NamedTuple):
    """One record. A tuple, because there are millions of them."""

    offset: int
    """The address. Offsets rise within a stream, and none appears twice."""
    epoch: int | None
    """The leader epoch that wrote it; None where the source does not keep it."""
    timestamp_type: TimestampType
    timestamp: int | None
    """Milliseconds since the epoch; None for a record without one."""
    key: Content | None
    value: Content | None
    headers: HeaderList = NO_HEADERS
    marker: Marker | None = None
    """The marker that a control record is; None for data."""
    producer_id: int = NO_PRODUCER
    """Id of an idempotent or transactional producer."""
    transactional: bool = False

    @property
    def size(self) -> int:
        """Bytes of key, value and the headers that are kept."""
        return (
            (self.key.size if self.key else 0)
            + (self.value.size if self.value else 0)
            + self.headers.size
        )


@dataclass(frozen=True, slots=True)
class UnreadableRange:
    """The addresses ``[start, end)`` of a stream, which could not be read."""

    start: int
    end: int
    reason: str
    """One sentence: what is wrong, and what the operator can do."""


Item = RecordEntry | UnreadableRange


def address(item: Item) -> int:
    """The offset of an entry, or the start of an unreadable range."""
    return item.offset if isinstance(item, RecordEntry) else item.start


def entry_of(
    record: Record,
    keep: Keep,
    epoch: int | None,
    marker: Marker | None = None,
    producer_id: int = NO_PRODUCER,
    transactional: bool = False,
) -> RecordEntry:
    """*record* as an entry of bounded size."""
    return RecordEntry(
        record.offset,
        epoch,
        record.timestamp_type,
        record.timestamp,
        content_of(record.key, keep.value),
        content_of(record.value, keep.value),
        headers_of(record.headers, keep),
        marker,
        producer_id,
        transactional,
    )


def differing(left: RecordEntry, right: RecordEntry) -> tuple[RecordField, ...]:
    """The fields in which two entries of one address differ; empty when they are the same.

    If one of the sources does not keep epochs, the epochs are not compared.
    """
    if left == right:
        return ()
    differs = {
        RecordField.EPOCH: None not in (left.epoch, right.epoch) and left.epoch != right.epoch,
        RecordField.KEY: left.key != right.key,
        RecordField.VALUE: left.value != right.value,
        RecordField.HEADERS: left.headers != right.headers,
        RecordField.TIMESTAMP: left.timestamp != right.timestamp,
        RecordField.TYPE: left.timestamp_type != right.timestamp_type,
        RecordField.MARKER: left.marker != right.marker,
    }
    return tuple(field for field, differ in differs.items() if differ)


Span = tuple[int, int]
"""The characters ``[start, end)`` of a text."""

MOST_STEPS = 200_000
"""Largest product of two lengths that is compared in detail: it takes some milliseconds."""
WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)

Block = tuple[int, int, int, int]
"""``[start, end)`` of the left and ``[start, end)`` of the right, which differ."""


class LinePair(NamedTuple):
    """Two lines beside each other; None on a side that lacks the line."""

    left: str | None
    right: str | None


def differences(left: str, right: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """The spans of each text that differ from the other text."""
    ours: list[Span] = []
    theirs: list[Span] = []
    words, others = WORDS.findall(left), WORDS.findall(right)
    # Where each word begins, and where the last ends.
    places, other_places = ([0, *accumulate(map(len, one))] for one in (words, others))
    for first, last, other_first, other_last in _blocks(words, others):
        a, c = places[first], other_places[other_first]
        text, other = left[a : places[last]], right[c : other_places[other_last]]
        for start, end, other_start, other_end in _blocks(text, other):
            if start < end:
                ours.append((a + start, a + end))
            if other_start < other_end:
                theirs.append((c + other_start, c + other_end))
    return tuple(ours), tuple(theirs)


def lines_beside(left: Sequence[str], right: Sequence[str]) -> Iterator[LinePair]:
    """Two texts line by line, with equal lines beside each other."""
    a = c = 0
    for block in _blocks(left, right):
        yield from (LinePair(text, text) for text in left[a : block[0]])
        a, c = block[1], block[3]
        yield from starmap(LinePair, zip_longest(left[block[0] : a], right[block[2] : c]))
    yield from (LinePair(text, text) for text in left[a:])


def _blocks(left: Sequence[Hashable], right: Sequence[Hashable]) -> Iterator[Block]:
    """The differing blocks of two sequences, after their common ends are removed."""
    head = _common_prefix(left, right)
    tail = _common_prefix(left[head:][::-1], right[head:][::-1])
    ours, theirs = left[head : len(left) - tail], right[head : len(right) - tail]
    if not ours and not theirs:
        return
    if len(ours) * len(theirs) > MOST_STEPS or not ours or not theirs:
        yield head, head + len(ours), head, head + len(theirs)
        return
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            yield head + a, head + b, head + c, head + d


def _common_prefix(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """How many elements both begin with."""
    for place, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return place
    return min(len(left), len(right))


class RawForm(Enum):
    """The byte format of a raw log. Only raw logs of the same form can be compared."""

    BATCHES = auto()
    """Record batches, as brokers have them."""
    RECORDS = auto()
    """Records of the Kafka Backup format."""


class Reach(NamedTuple):
    """How far whole entries reach in a stretch of bytes."""

    offset: int
    """The first address after the entries."""
    entries: int
    whole: bool
    """The stretch ends exactly with these entries, and nothing in it stops the comparison."""


class RawPiece(Protocol):
    """Some bytes of a raw log."""

    @property
    def data(self) -> bytes:
        """The bytes, whole entries among them."""

    @property
    def begin(self) -> int:
        """Where the first entry begins in the bytes."""

    @property
    def end(self) -> int:
        """Where the last entry ends in the bytes."""

    def reach(self, begin: int, end: int, at: int) -> Reach:
        """How far entries reach in ``data[begin:end]``, which continues at the address *at*."""


@dataclass(frozen=True, slots=True)
class RawLog:
    """A source's bytes from an address on."""

    form: RawForm
    pieces: Iterator[RawPiece]
    """The bytes in order, piece by piece. Ends early where bytes cannot be read."""
    epochs: tuple[EpochStart, ...] = ()
    """The known leader epochs of the entries, if the bytes do not contain them."""


class Same(NamedTuple):
    """Addresses ``[start, end)`` at which both sides are the same, known without decoding."""

    start: int
    end: int
    entries: int


def same_from(left: RawLog, right: RawLog, start: int) -> Iterator[Same]:
    """How far both raw logs, which begin at *start*, have the same entries, piece by piece."""
    if left.form is not right.form:
        return
    limit = other_epoch(left.epochs, right.epochs, start)
    ours, theirs, at = _Cursor(left.pieces), _Cursor(right.pieces), start
    while size := min(ours.rest(), theirs.rest()):
        same = _common_bytes(ours, theirs, size)
        reach = ours.reach(same, at)
        if limit is not None and reach.offset > limit:
            return
        if reach.offset > at:
            yield Same(at, reach.offset, reach.entries)
            at = reach.offset
        if same < size or not reach.whole:
            return
        ours.at += size
        theirs.at += size


def other_epoch(left: Sequence[EpochStart], right: Sequence[EpochStart], start: int) -> int | None:
    """The first address from *start* on at which the known epochs of both sides differ."""
    places = sorted({start, *(one.offset for one in (*left, *right) if one.offset > start)})
    for place in places:
        one, other = _epoch_at(left, place), _epoch_at(right, place)
        if None not in (one, other) and one != other:
            return place
    return None


def _epoch_at(starts: Sequence[EpochStart], offset: int) -> int | None:
    place = bisect_right(starts, offset, key=lambda start: start.offset) - 1
    return starts[place].epoch if place >= 0 else None


class _Cursor:
    """A raw log's current piece, and how far that piece was compared."""

    def __init__(self, pieces: Iterator[RawPiece]) -> None:
        self._pieces = pieces
        self._piece: RawPiece | None = None
        self.data = b""
        self.view = memoryview(b"")
        self.at = self._end = 0

    def rest(self) -> int:
        """Bytes left in the piece, or in the next piece if none are left; 0 at the end."""
        while self.at >= self._end:
            self._piece = next(self._pieces, None)
            if self._piece is None:
                return 0
            self.data, self.at, self._end = self._piece.data, self._piece.begin, self._piece.end
            self.view = memoryview(self.data)
        return self._end - self.at

    def reach(self, size: int, at: int) -> Reach:
        assert self._piece is not None
        return self._piece.reach(self.at, self.at + size, at)


def _common_bytes(ours: _Cursor, theirs: _Cursor, size: int) -> int:
    """How many of the next *size* bytes are the same: all, or up to the first that differs."""
    if _same(ours, theirs, 0, size):
        return size
    low, high = 0, size
    while high - low > 1:
        middle = (low + high) // 2
        if _same(ours, theirs, low, middle):
            low = middle
        else:
            high = middle
    return low


def _same(ours: _Cursor, theirs: _Cursor, low: int, high: int) -> bool:
    """Whether the next bytes ``[low, high)`` are the same, without copying either side whole.

    Comparing two memoryviews would take a hundred times longer.
    """
    wanted = theirs.view[theirs.at + low : theirs.at + high]
    return ours.data.startswith(wanted, ours.at + low)


CHUNK_BYTES = 256 * 1024


class Abandoned(Exception):
    """The caller no longer wants this reading."""


def _go_on() -> None:
    """Never ends the reading."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a stretch of a source is read, and how the caller ends the reading."""

    keep: Keep = ROWS
    chunk_bytes: int = CHUNK_BYTES
    plain: bool = False
    """Compare bytes only outside transactions: the other side has only committed records."""
    go_on: Callable[[], None] = _go_on
    """Called before every request and every batch; raises `Abandoned` to end the reading."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The addresses ``[start, end)``."""

    start: int
    end: int

    def within(self, start: int, end: int) -> Extent:
        """The part of ``[start, end)`` that this extent covers; it may be empty."""
        low = max(self.start, start)
        return Extent(low, max(low, min(self.end, end)))


class Source(Protocol):
    """One side of a comparison."""

    @property
    def name(self) -> str:
        """The name that tables show, such as ``b1``."""

    @property
    def extent(self) -> Extent:
        """Where the entries begin and end."""

    def read(self, start: int, end: int, reading: Reading) -> Iterator[Item]:
        """All items in ``[start, end)``, by address; nothing is read ahead of the caller.

        Does not raise for a stretch that it cannot read: the stretch is an `UnreadableRange` in
        its place, and the readable rest follows.
        """

    def raw_log(self, start: int, end: int, reading: Reading) -> RawLog | None:
        """The bytes of the entries in ``[start, end)``; None if bytes cannot be compared."""


class SourceWalk:
    """One pass over a stretch of a source; `_at` is the next offset to report."""

    def __init__(self, asked: Extent, reading: Reading) -> None:
        self._at, self._end, self._reading = asked.start, asked.end, reading

    def _unreadable(self, end: int, reason: str) -> Iterator[UnreadableRange]:
        """Report everything up to *end* as unreadable, and continue at *end*."""
        end = min(end, self._end)
        if self._at < end:
            yield UnreadableRange(self._at, end, reason)
            self._at = end
