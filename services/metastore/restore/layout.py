"""How commands get their old offsets back: which record of which transaction comes when. Pure.

Two transactions overlap (M3). One carries the commands and is committed once, at the end; the
other fills the gaps with pads that nobody will ever read, and is aborted once. Its abort marker
takes an offset too, so it is aborted in the last place that no command has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class CommandRange:
    """The commands ``[start, end)`` of the list are sent, and get the offsets from *offset* on."""

    start: int
    end: int
    offset: int


@dataclass(frozen=True, slots=True)
class Pads:
    """So many records of the transaction that is aborted."""

    count: int
    offset: int


@dataclass(frozen=True, slots=True)
class AbortPads:
    """The transaction of the pads is aborted: its marker gets this offset."""

    offset: int


Step = CommandRange | Pads | AbortPads


def needs_pads(offsets: Sequence[int]) -> bool:
    """Whether there is a gap before the last command."""
    return bool(offsets) and offsets[-1] + 1 > len(offsets)


def steps(offsets: Sequence[int]) -> Iterator[Step]:
    """What has to be sent to an empty log, so that command i gets the offset ``offsets[i]``.

    The abort marker fills the last gap; where there is one single place in all, a pad has to
    stand there, for a transaction without records leaves no marker, and the marker comes behind
    the last command.

    Raises ValueError for offsets that do not grow.
    """
    if any(one >= other for one, other in pairwise(offsets)) or (offsets and offsets[0] < 0):
        raise ValueError("offsets have to grow")
    free = offsets[-1] + 1 - len(offsets) if offsets else 0
    open_pads = free > 0
    at = 0
    for start, end in _runs(offsets):
        gap = offsets[start] - at
        free -= gap
        last = gap > 0 and free == 0
        pads = gap - 1 if last and at + gap - 1 > start else gap
        if pads:
            yield Pads(pads, at)
        if pads < gap:
            yield AbortPads(at + pads)
            open_pads = False
        at = offsets[start] + end - start
        yield CommandRange(start, end, offsets[start])
    if open_pads:
        yield AbortPads(at)


def _runs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Stretches of commands without a gap between them."""
    start = 0
    for index in range(1, len(offsets) + 1):
        if index == len(offsets) or offsets[index] != offsets[index - 1] + 1:
            yield start, index
            start = index
