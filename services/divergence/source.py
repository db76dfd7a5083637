"""The interface of a compared source: a stream of entries ordered by address, and its bytes.

A source's bytes are a raw log: pieces of whole entries, each of which says how far the entries in
a stretch of bytes reach. Equal bytes are equal entries, so two raw logs of the same form are
compared at the speed of memory, without decoding.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple, Protocol

from breakglass.services.divergence.entry import ROWS, Item, Keep, UnreadableRange
from breakglass.services.topic_backup.summary import EpochStart


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
        same = _common(ours, theirs, size)
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


def _common(ours: _Cursor, theirs: _Cursor, size: int) -> int:
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
