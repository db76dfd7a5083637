"""Finds where two texts differ, down to the character, in bounded time.

Common beginnings and ends are removed first. The rest is compared word by word, and replaced words
character by character. Where that would take too long, the whole rest counts as different.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import starmap, zip_longest
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
    for block in _word_blocks(left, right):
        for a, b, c, d in _character_blocks(left, right, block):
            if a < b:
                ours.append((a, b))
            if c < d:
                theirs.append((c, d))
    return tuple(ours), tuple(theirs)


def lines_beside(left: Sequence[str], right: Sequence[str]) -> Iterator[LinePair]:
    """Two texts line by line, with equal lines beside each other."""
    a = c = 0
    for block in _blocks(left, right):
        yield from (LinePair(text, text) for text in left[a : block[0]])
        a, c = block[1], block[3]
        yield from starmap(LinePair, zip_longest(left[block[0] : a], right[block[2] : c]))
    yield from (LinePair(text, text) for text in left[a:])


def _word_blocks(left: str, right: str) -> Iterator[Block]:
    """Differing stretches of two texts, in characters, that begin and end with words."""
    ours, theirs = WORDS.findall(left), WORDS.findall(right)
    our_places, their_places = _places(ours), _places(theirs)
    for a, b, c, d in _blocks(ours, theirs):
        yield our_places[a], our_places[b], their_places[c], their_places[d]


def _places(words: Sequence[str]) -> list[int]:
    """Where each word begins, and where the last ends."""
    places = [0]
    for word in words:
        places.append(places[-1] + len(word))
    return places


def _character_blocks(left: str, right: str, block: Block) -> Iterator[Block]:
    a, b, c, d = block
    for start, end, other_start, other_end in _blocks(left[a:b], right[c:d]):
        yield a + start, a + end, c + other_start, c + other_end


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
