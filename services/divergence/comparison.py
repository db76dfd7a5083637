"""Two sources side by side, and what is known of them without reading an entry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from typing_extensions import override

from breakglass.services.divergence.align import PairKind, RecordPair, align
from breakglass.services.divergence.byte_source import Same, same_from
from breakglass.services.divergence.entry import RecordEntry, address
from breakglass.services.divergence.source import Extent, Reading, Source


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sources with common addresses."""

    left: Source
    right: Source
    proven_same: Extent | None = None
    """Addresses at which both sides are known to hold the same; None: nothing is known."""

    @property
    def extent(self) -> Extent:
        """From the first address of either side to the last."""
        one, other = self.left.extent, self.right.extent
        return Extent(min(one.start, other.start), max(one.end, other.end))

    def pairs(self, start: int, end: int, reading: Reading) -> Iterator[RecordPair]:
        """What the sides have in ``[start, end)``, pair by pair; read as far as it is asked for."""
        return align(
            self.left.read(start, end, reading),
            self.right.read(start, end, reading),
        )

    def same_from(self, start: int, end: int, reading: Reading) -> Iterator[Same]:
        """How far both sides have the same bytes from *start* on, piece by piece.

        Nothing is decoded for it. What cannot be read ends it, and is told of by `pairs`.
        """
        left = self.left.tape(start, end, reading)
        right = self.right.tape(start, end, reading)
        if left is None or right is None:
            return iter(())
        return same_from(left, right, start)


class Alone(Comparison):
    """One source, looked at by itself: each entry is a pair with itself."""

    __slots__ = ()

    def __init__(self, source: Source) -> None:
        super().__init__(source, source)

    def pairs(self, start: int, end: int, reading: Reading) -> Iterator[RecordPair]:
        """What the source has in ``[start, end)``; what it cannot read is of kind UNREAD."""
        for item in self.left.read(start, end, reading):
            kind = PairKind.EQUAL if isinstance(item, RecordEntry) else PairKind.UNREAD
            yield RecordPair(address(item), kind, item, item)

    @override
    def same_from(self, start: int, end: int, reading: Reading) -> Iterator[Same]:
        """Nothing: what cannot be read is looked for."""
        return iter(())
