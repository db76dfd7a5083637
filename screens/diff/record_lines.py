"""One record of both replicas, field by field and line by line, for the screen of one record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from breakglass.screens.diff.pieces import clock_text, marker_text
from breakglass.services.divergence.align import PairKind, RecordPair
from breakglass.services.divergence.entry import (
    NO_PRODUCER,
    Content,
    HeaderList,
    Item,
    RecordEntry,
    UnreadableRange,
)
from breakglass.services.divergence.text import lines_beside
from breakglass.services.topic_backup.record import TimestampType
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text
from breakglass.services.words.record_text import ALL, INDENT, TextForm, TextLimits, preview, shown

BEHIND = "(what differs is not shown)"
HEADER_LENGTH = 400
"""Characters of a header's key, and of its value."""
TYPES = {
    TimestampType.CREATE: "set by the producer",
    TimestampType.LOG_APPEND: "set on append",
}


class RecordLine(NamedTuple):
    """A line of a field, as either side has it; None where a side has no such line."""

    sign: str
    """``=``, ``!``, ``<``, ``>``, ``?``, or a space: differs, and that says nothing."""
    name: str
    """Of the field, on its first line."""
    left: str | None
    right: str | None


class Writing(NamedTuple):
    """How a record is written."""

    form: TextForm = TextForm.TEXT
    limits: TextLimits = ALL
    redacted: bool = False
    """Only the lengths of what it holds."""


def record_lines(pair: RecordPair, writing: Writing) -> list[RecordLine]:
    """The lines of *pair*: what a side does not have or could not read is said on the first."""
    lines = [_absence(pair)] if None in (pair.left, pair.right) or _unread(pair) else []
    for name, left, right in _fields(pair, writing):
        field = [_judged(line, name, pair) for line in _beside(name, left, right, pair)]
        lines += field
        if name in pair.fields and all(line.sign == "=" for line in field):
            lines.append(RecordLine("!", "", BEHIND, BEHIND))
    return lines


def folded(lines: Sequence[RecordLine], depth: int) -> list[RecordLine]:
    """*lines* without those that stand deeper than *depth* levels; how many is said in their place.

    A fold that hides a difference has the sign of one.
    """
    shown: list[RecordLine] = []
    hidden: list[RecordLine] = []
    for line in lines:
        if not line.name and _level(line) > depth:
            hidden.append(line)
            continue
        shown += _fold(hidden, depth)
        hidden = []
        shown.append(line)
    return [*shown, *_fold(hidden, depth)]


def _level(line: RecordLine) -> int:
    text = line.left if line.left is not None else line.right or ""
    return (len(text) - len(text.lstrip(" "))) // len(INDENT)


def _fold(hidden: Sequence[RecordLine], depth: int) -> Iterator[RecordLine]:
    if not hidden:
        return
    signs = {line.sign for line in hidden} - {"=", " "}
    text = f"{INDENT * (depth + 1)}... {len(hidden):,} lines"
    left = text if any(line.left is not None for line in hidden) else None
    right = text if any(line.right is not None for line in hidden) else None
    yield RecordLine(min(signs, default="="), "", left, right)


def _judged(line: RecordLine, name: str, pair: RecordPair) -> RecordLine:
    """*line* without a sign where a difference in it is no difference of the records."""
    compared = pair.kind is PairKind.EQUAL or pair.kind is PairKind.DIFFERENT
    if compared and line.sign != "=" and name not in pair.fields:
        return line._replace(sign=" ")
    return line


def _unread(pair: RecordPair) -> bool:
    return isinstance(pair.left, UnreadableRange) or isinstance(pair.right, UnreadableRange)


def _absence(pair: RecordPair) -> RecordLine:
    sides = (_why_absent(pair.left), _why_absent(pair.right))
    return RecordLine(pair.kind.value, "", *sides)


def _why_absent(item: Item | None) -> str:
    if isinstance(item, UnreadableRange):
        return bounded(f"{item.start:,} to {item.end:,} cannot be read: {item.reason}", 900)
    return "no record at this offset" if item is None else ""


Lines = Sequence[str] | None
"""None: the side has no record."""


def _fields(pair: RecordPair, writing: Writing) -> Iterator[tuple[str, Lines, Lines]]:
    """Each field's name, and its lines on both sides."""
    left = pair.left if isinstance(pair.left, RecordEntry) else None
    right = pair.right if isinstance(pair.right, RecordEntry) else None
    ours, theirs = ({} if side is None else _lines(side, writing) for side in (left, right))
    for name in {**ours, **theirs}:
        yield name, ours.get(name), theirs.get(name)


def _lines(entry: RecordEntry, writing: Writing) -> dict[str, Sequence[str]]:
    told: dict[str, Sequence[str]] = {
        "epoch": ["not kept" if entry.epoch is None else str(entry.epoch)],
        "timestamp": [_time(entry.timestamp)],
        "type": [TYPES.get(entry.timestamp_type, "none")],
    }
    if entry.producer_id != NO_PRODUCER or entry.transactional:
        transactional = ", transactional" if entry.transactional else ""
        told["producer"] = [f"{entry.producer_id}{transactional}"]
    if entry.marker is not None:
        told["marker"] = [marker_text(entry.marker)]
    return {
        **told,
        "key": _content(entry.key, writing),
        "headers": _headers(entry.headers, writing),
        "value": _content(entry.value, writing),
    }


def _time(timestamp: int | None) -> str:
    if timestamp is None or clock_text(timestamp) == "?":
        return "-" if timestamp is None else f"{timestamp} ms"
    return f"{time_text(timestamp)} ({timestamp} ms)"


def _content(content: Content | None, writing: Writing) -> Sequence[str]:
    if content is None:
        return ["null"]
    size = f"{content.size:,} byte{'s' * (content.size != 1)}"
    if writing.redacted:
        return [size]
    told = shown(content.kept, content.size, writing.form, writing.limits)
    return [f"{size}{told.note and f'; {told.note}'}", *told.lines]


def _headers(headers: HeaderList, writing: Writing) -> Sequence[str]:
    more = headers.count - len(headers.kept)
    lines = [f"{headers.count:,}{f'; the first {len(headers.kept):,} are shown' if more else ''}"]
    if not writing.redacted:
        lines += [_header(key, value, writing.form) for key, value in headers.kept]
    return lines


def _header(key: Content, value: Content | None, form: TextForm) -> str:
    name = preview(key.kept, key.size, TextForm.TEXT, HEADER_LENGTH)
    kept, size = (None, 0) if value is None else (value.kept, value.size)
    return f"{name}: {preview(kept, size, form, HEADER_LENGTH)}"


def _beside(name: str, left: Lines, right: Lines, pair: RecordPair) -> Iterator[RecordLine]:
    """The lines of one field; the first carries its name."""
    signed: Iterable[tuple[str, str | None, str | None]]
    if left is None or right is None:
        sign = pair.kind.value if _unread(pair) else "<" if right is None else ">"
        signed = ((sign, one, other) for one, other in zip_longest(left or (), right or ()))
    else:
        signed = ((_sign(*both), *both) for both in lines_beside(left, right))
    for number, (sign, one, other) in enumerate(signed):
        yield RecordLine(sign, "" if number else name, one, other)


def _sign(left: str | None, right: str | None) -> str:
    if left is None or right is None:
        return ">" if left is None else "<"
    return "=" if left == right else "!"
