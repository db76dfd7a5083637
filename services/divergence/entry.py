"""The items of a compared stream: entries of bounded size, and stretches that could not be read.

An entry keeps the beginning of a long value and a SHA-256 of the whole value, so that a value of
10 MB takes little memory and still compares exactly.

Finds where two texts differ, down to the character, in bounded time.
Common beginnings and ends are removed first. The rest is compared word by word, and replaced words
character by character. Where that would take too long, the whole rest counts as different.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from hashlib import sha256
from itertools import accumulate, starmap, zip_longest
from typing import NamedTuple

from breakglass.services.record_batches import Headers, Marker, Record, TimestampType

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
