"""Finds where two texts differ, down to the character, in bounded time.

Common beginnings and ends are removed first. The rest is compared word by word, and replaced words
character by character. Where that would take too long, the whole rest counts as different.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, starmap, zip_longest
from typing import NamedTuple

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
    head = _common(left, right)
    tail = _common(left[head:][::-1], right[head:][::-1])
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


def _common(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """How many elements both begin with."""
    for place, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return place
    return min(len(left), len(right))
