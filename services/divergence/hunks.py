"""Gathers runs into hunks and counts them; both as they pass by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from breakglass.services.divergence.align import PairKind, RecordPair
from breakglass.services.divergence.byte_source import Same
from breakglass.services.divergence.entry import Item, RecordEntry, RecordField
from breakglass.services.divergence.runs import Run


@dataclass(frozen=True, slots=True)
class Hunk:
    """Neighbouring pairs that compare alike, in the same fields."""

    kind: PairKind
    fields: tuple[RecordField, ...]
    start: int
    end: int
    """One past the last address that is in it."""
    left: int
    right: int
    """Entries on each side; a stretch that could not be read counts for none."""


def hunks(found: Iterable[Run]) -> Iterator[Hunk]:
    """The hunks of pairs and of stretches that are the same, in their order."""
    for (kind, fields), group in groupby(found, key=_alike):
        start, end, left, right = -1, 0, 0, 0
        for one in group:
            first = one.start if isinstance(one, Same) else one.offset
            start = first if start < 0 else start
            end = max(end, one.end)
            left += one.entries if isinstance(one, Same) else _entry(one.left)
            right += one.entries if isinstance(one, Same) else _entry(one.right)
        yield Hunk(kind, fields, start, end, left, right)


def _alike(one: Run) -> tuple[PairKind, tuple[RecordField, ...]]:
    return (PairKind.EQUAL, ()) if isinstance(one, Same) else (one.kind, one.fields)


def _entry(item: Item | None) -> int:
    return int(isinstance(item, RecordEntry))


@dataclass(slots=True)
class HunkTotals:
    """What was counted so far."""

    kinds: Counter[PairKind] = field(default_factory=Counter)
    """Pairs of each kind; of UNREAD, entries and stretches."""
    fields: Counter[RecordField] = field(default_factory=Counter)
    """How many DIFFERENT pairs differ in each."""
    first: int | None = None
    """Address of the first pair that is not EQUAL."""
    counted_to: int = 0
    """Address up to which everything was counted."""

    undecoded: int = 0
    """Of those that are EQUAL, how many were known to be without decoding them."""

    def add(self, found: Run) -> None:
        """Count the next pair, or the entries of a stretch that is the same."""
        if isinstance(found, Same):
            self.kinds[PairKind.EQUAL] += found.entries
            self.undecoded += found.entries
            self.counted_to = max(self.counted_to, found.end)
        else:
            self._add(found)

    def merge(self, later: HunkTotals) -> None:
        """Take in what was counted of the addresses behind these."""
        self.kinds += later.kinds
        self.fields += later.fields
        self.first = later.first if self.first is None else self.first
        self.counted_to = max(self.counted_to, later.counted_to)
        self.undecoded += later.undecoded

    def _add(self, pair: RecordPair) -> None:
        self.kinds[pair.kind] += 1
        self.fields.update(pair.fields)
        if self.first is None and pair.kind is not PairKind.EQUAL:
            self.first = pair.offset
        self.counted_to = max(self.counted_to, pair.end)

    @property
    def equal(self) -> bool:
        """Everything counted is on both sides, and the same."""
        return self.first is None
