"""One record on one line: its epoch, time, key and value as far as there is room.

What differs from the other side is marked to the character. Where two texts differ only past
what fits, they are shown from shortly before the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from breakglass.services.browse.query import RecordQuery
from breakglass.services.divergence.entry import Content, Item, RecordEntry, UnreadableRange
from breakglass.services.divergence.text import Span, differences
from breakglass.services.topic_backup.batches import ControlType, Marker
from breakglass.services.words.inert import CUT, bounded
from breakglass.services.words.record_text import TextForm, preview

LOOKED_AT = 480
"""Characters of a key or a value that a line is made of."""
BEFORE_DIFFERENCE = 8
EPOCH_WIDTH = 3
TIME_WIDTH = 8
TIME_LEAST = 44
"""A side that is wider than this has a column for the time."""
LEAST_KEY, MOST_KEY = 8, 24


class ColumnPiece(NamedTuple):
    """Some text in a column of its own."""

    text: str
    width: int
    spans: tuple[Span, ...] = ()
    """Characters that the other side does not have."""
    right: bool = False
    """Stands to the right of its column."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How records are written on lines."""

    form: TextForm = TextForm.TEXT
    redacted: bool = False
    """Only the lengths of what records hold."""
    query: RecordQuery | None = None
    """What was searched for: its finds are marked."""


def pieces(item: Item | None, other: Item | None, width: int, manner: Manner) -> list[ColumnPiece]:
    """The line of *item* in *width* cells, compared with *other*."""
    if item is None:
        return [ColumnPiece("", width)]
    if isinstance(item, UnreadableRange):
        return [
            ColumnPiece(bounded(f"cannot be read up to {item.end:,}: {item.reason}", 400), width)
        ]
    held = other if isinstance(other, RecordEntry) else None
    head = list(_head(item, held, width))
    left = width - sum(piece.width + 1 for piece in head)
    if item.marker is not None:
        spans = _whole(marker_text(item.marker), held is not None and held.marker != item.marker)
        return [*head, ColumnPiece(marker_text(item.marker), left, spans)]
    wide_key = max(LEAST_KEY, min(MOST_KEY, left // 3))
    return [
        *head,
        _content("key", item, held, wide_key, manner),
        _content("value", item, held, left - wide_key - 1, manner),
    ]


def _head(entry: RecordEntry, other: RecordEntry | None, width: int) -> Iterator[ColumnPiece]:
    """Epoch, and the time where there is room for it."""
    epoch = "-" if entry.epoch is None else f"e{entry.epoch}"
    yield ColumnPiece(
        epoch,
        max(EPOCH_WIDTH, len(epoch)),
        _whole(epoch, other is not None and other.epoch != entry.epoch),
    )
    if width > TIME_LEAST:
        time = clock_text(entry.timestamp)
        changed = other is not None and other.timestamp != entry.timestamp
        yield ColumnPiece(time, TIME_WIDTH, _whole(time, changed))


def _content(
    field: str, entry: RecordEntry, other: RecordEntry | None, width: int, manner: Manner
) -> ColumnPiece:
    """The key or the value of *entry*, beside that of *other*, which may be a null."""
    content: Content | None = getattr(entry, field)
    against: Content | None = getattr(other, field, None)
    text = _text(content, manner)
    if other is not None and content != against:
        spans, first = _differing(text, _text(against, manner))
    else:
        spans = manner.query.spans(field, text) if manner.query and not manner.redacted else ()
        first = spans[0][0] if spans else 0
    start = max(first - BEFORE_DIFFERENCE, 0) if first > max(width, 1) - 2 * len(CUT) else 0
    if not start:
        return ColumnPiece(text, width, spans)
    shift = len(CUT) - start
    return ColumnPiece(CUT + text[start:], width, tuple((a + shift, b + shift) for a, b in spans))


@lru_cache(2048)
def _differing(text: str, other: str) -> tuple[tuple[Span, ...], int]:
    """What of *text* differs from *other*, and where either begins to."""
    spans, theirs = differences(text, other)
    return tuple(spans), min([span[0] for span in (*spans[:1], *theirs[:1])], default=0)


def _text(content: Content | None, manner: Manner) -> str:
    if manner.redacted:
        return "null" if content is None else f"{content.size:,} bytes"
    if content is None:
        return preview(None, 0, manner.form, LOOKED_AT)
    return _preview(content.kept, content.size, manner.form)


@lru_cache(2048)
def _preview(kept: bytes, size: int, form: TextForm) -> str:
    return preview(kept, size, form, LOOKED_AT)


def _whole(text: str, differs: bool) -> tuple[Span, ...]:
    return ((0, len(text)),) if differs else ()


def clock_text(timestamp: int | None) -> str:
    """``10:45:12`` UTC; ``-`` without a timestamp, ``?`` for one that is no time."""
    if timestamp is None or timestamp < 0:
        return "-"
    try:
        return f"{datetime.fromtimestamp(timestamp / 1000, UTC):%H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return "?"


MARKERS = {ControlType.ABORT: "transaction aborted", ControlType.COMMIT: "transaction committed"}


def marker_text(marker: Marker) -> str:
    """``-- transaction committed, coordinator epoch 3 --``."""
    name = MARKERS.get(marker.type, f"control record {marker.type.name.lower()}")
    epoch = marker.coordinator_epoch
    return f"-- {name}{'' if epoch is None else f', coordinator epoch {epoch}'} --"
