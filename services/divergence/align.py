"""Puts two streams side by side, entry by entry; holds one of each."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from breakglass.services.divergence.entry import (
    Item,
    RecordEntry,
    RecordField,
    UnreadableRange,
    address,
    differing,
)


class PairKind(StrEnum):
    """How two sides compare at one address; the value is the sign it is shown by."""

    EQUAL = "="
    LEFT = "<"
    """Only the left side has it."""
    RIGHT = ">"
    """Only the right side has it."""
    DIFFERENT = "!"
    """Both have an entry there, and not the same."""
    UNREAD = "?"
    """A side could not be read there, so nothing can be said."""


class RecordPair(NamedTuple):
    """What two sides have at one address."""

    offset: int
    kind: PairKind
    left: Item | None
    right: Item | None
    fields: tuple[RecordField, ...] = ()
    """In which entries of kind DIFFERENT differ."""

    @property
    def end(self) -> int:
        """One past what it is about: for a stretch that could not be read, that stretch's end."""
        if isinstance(self.left, RecordEntry) or isinstance(self.right, RecordEntry):
            return self.offset + 1
        return max(one.end for one in (self.left, self.right) if one is not None)

    @property
    def size(self) -> int:
        """Bytes of its entries, as the sources have them."""
        return sum(one.size for one in (self.left, self.right) if isinstance(one, RecordEntry))

    def mirrored(self) -> RecordPair:
        """The same with the sides exchanged."""
        return RecordPair(self.offset, _MIRRORED[self.kind], self.right, self.left, self.fields)


_MIRRORED = {
    PairKind.EQUAL: PairKind.EQUAL,
    PairKind.LEFT: PairKind.RIGHT,
    PairKind.RIGHT: PairKind.LEFT,
    PairKind.DIFFERENT: PairKind.DIFFERENT,
    PairKind.UNREAD: PairKind.UNREAD,
}


class _Side:
    """A stream with its next entry, and the stretch it was last unreadable in."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._blind: UnreadableRange | None = None
        self._head = next(items, None)

    @property
    def at(self) -> int | None:
        """The address of what comes next; None at the end."""
        return None if self._head is None else address(self._head)

    def take(self, at: int) -> Item | None:
        """What this side has at *at*, which no address before it is left of; goes on behind it."""
        item = self._head
        if item is None or address(item) != at:
            blind = self._blind
            return blind if blind is not None and at < blind.end else None
        if isinstance(item, UnreadableRange):
            self._blind = item
        self._head = next(self._items, None)
        return item


def align(left: Iterator[Item], right: Iterator[Item]) -> Iterator[RecordPair]:
    """The pairs of two streams, by address.

    A stretch that a side could not read is a pair of its own, at its first address; what the
    other side has within it is UNREAD: whether it is on both sides cannot be known.
    """
    one, other = _Side(left), _Side(right)
    while True:
        places = [at for at in (one.at, other.at) if at is not None]
        if not places:
            return
        yield compared(min(places), one.take(min(places)), other.take(min(places)))


def compared(at: int, left: Item | None, right: Item | None) -> RecordPair:
    """What the two sides have at *at*; one of them has something."""
    if isinstance(left, UnreadableRange) or isinstance(right, UnreadableRange):
        return RecordPair(at, PairKind.UNREAD, left, right)
    if left is None or right is None:
        return RecordPair(at, PairKind.RIGHT if left is None else PairKind.LEFT, left, right)
    fields = differing(left, right)
    return RecordPair(at, PairKind.DIFFERENT if fields else PairKind.EQUAL, left, right, fields)
