"""Sources as the bytes they are kept in: equal bytes are equal entries, and need no decoding.

A tape gives a source's bytes from some address on in pieces that hold whole entries, and tells for
any stretch of a piece how far the entries in it reach. Two tapes of one form are held against each
other piece by piece, at the speed of memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from breakglass.services.topic_backup.summary import EpochStart


class TapeForm(Enum):
    """In which bytes entries are kept. Only tapes of one form can be held against each other."""

    BATCHES = auto()
    """Record batches, as brokers have them."""
    RECORDS = auto()
    """Records of the Kafka Backup format."""


class Reach(NamedTuple):
    """How far whole entries reach in a stretch of bytes."""

    offset: int
    """The first address behind them."""
    entries: int
    whole: bool
    """The stretch ends with them, and nothing in it keeps from going on."""


class TapePiece(Protocol):
    """Some bytes of a tape."""

    @property
    def data(self) -> bytes:
        """The bytes, whole entries among them."""

    @property
    def begin(self) -> int:
        """Where in them the first entry begins."""

    @property
    def end(self) -> int:
        """Where in them the last entry ends."""

    def reach(self, begin: int, end: int, at: int) -> Reach:
        """How far entries reach in ``data[begin:end]``, which continues at the address *at*."""


class Tape(Protocol):
    """A source's bytes from some address on."""

    @property
    def form(self) -> TapeForm:
        """What they are."""

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        """The leader epochs of the entries, as far as they are known and not in the bytes."""

    def pieces(self) -> Iterator[TapePiece]:
        """Them, in order. Ends early where something cannot be read."""


class Same(NamedTuple):
    """Addresses ``[start, end)`` at which both sides hold the same, known without decoding."""

    start: int
    end: int
    entries: int
    """Of each side."""


def same_from(left: Tape, right: Tape, start: int) -> Iterator[Same]:
    """How far both tapes, which begin at *start*, have the same entries, piece by piece."""
    if left.form is not right.form:
        return
    limit = other_epoch(left.epochs, right.epochs, start)
    ours, theirs, at = _Reel(left), _Reel(right), start
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
        ours.wind(size)
        theirs.wind(size)


def other_epoch(left: Sequence[EpochStart], right: Sequence[EpochStart], start: int) -> int | None:
    """The first address from *start* on of which both know the epoch, and not the same one."""
    places = sorted({start, *(one.offset for one in (*left, *right) if one.offset > start)})
    for place in places:
        one, other = _epoch_at(left, place), _epoch_at(right, place)
        if None not in (one, other) and one != other:
            return place
    return None


def _epoch_at(starts: Sequence[EpochStart], offset: int) -> int | None:
    place = bisect_right(starts, offset, key=lambda one: one.offset) - 1
    return starts[place].epoch if place >= 0 else None


class _Reel:
    """A tape with the piece that is looked at, and how far that was looked at."""

    def __init__(self, tape: Tape) -> None:
        self._pieces = tape.pieces()
        self._piece: TapePiece | None = None
        self.data = b""
        self.view = memoryview(b"")
        self.at = self._end = 0

    def rest(self) -> int:
        """Bytes that are left of the piece, of the next one where none are; 0 at the end."""
        while self.at >= self._end:
            self._piece = next(self._pieces, None)
            if self._piece is None:
                return 0
            self.data, self.at, self._end = self._piece.data, self._piece.begin, self._piece.end
            self.view = memoryview(self.data)
        return self._end - self.at

    def wind(self, size: int) -> None:
        self.at += size

    def reach(self, size: int, at: int) -> Reach:
        assert self._piece is not None
        return self._piece.reach(self.at, self.at + size, at)


def _common(ours: _Reel, theirs: _Reel, size: int) -> int:
    """How many of the next *size* bytes are the same: all, or to the first that differs."""
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


def _same(ours: _Reel, theirs: _Reel, low: int, high: int) -> bool:
    """Whether the next bytes ``[low, high)`` are the same; where they lie, none is copied.

    Comparing two memoryviews would take a hundred times longer.
    """
    wanted = theirs.view[theirs.at + low : theirs.at + high]
    return ours.data.startswith(wanted, ours.at + low)
