"""The lines of a list of records: what stands on each, in which columns, and how it is drawn.

What differs from the other side is marked to the character. Where two texts differ only past what
fits, they are shown from shortly before the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from breakglass.services.browse.query import RecordQuery
from breakglass.services.divergence.align import HunkTotals, PairKind, RecordPair
from breakglass.services.divergence.replica_source import Facing
from breakglass.services.divergence.source import (
    Content,
    Item,
    RecordEntry,
    RecordField,
    Span,
    UnreadableRange,
    differences,
)
from breakglass.services.model import EpochHistory, ReplicaLog, Unknown
from breakglass.services.record_batches import ControlType, Marker
from breakglass.services.words.figures import count, epochs_text
from breakglass.services.words.inert import CUT, bounded
from breakglass.services.words.record_text import TextForm, preview
from breakglass.themes.roles import Role

LETTERS = {
    RecordField.EPOCH: "e",
    RecordField.KEY: "k",
    RecordField.VALUE: "v",
    RecordField.HEADERS: "h",
    RecordField.TIMESTAMP: "t",
    RecordField.TYPE: "y",
    RecordField.MARKER: "m",
}
"""How fields that differ are named on a line."""


class Side(Enum):
    """Which side of a pair a line shows."""

    BOTH = "both"
    LEFT = "left"
    RIGHT = "right"


class OffsetMark(NamedTuple):
    """Something to be known of the offset that a line stands before."""

    offset: int
    text: str
    parting: bool = False
    """The two logs part here."""


class DiffRow(NamedTuple):
    """One line."""

    place: int
    """Which pair of the window it belongs to, or stands before."""
    pair: RecordPair | None
    side: Side = Side.BOTH
    mark: OffsetMark | None = None


def rows_of(
    pairs: Sequence[RecordPair], marks: Iterable[OffsetMark], end: int, *, stacked: bool
) -> list[DiffRow]:
    """The lines of *pairs* that reach up to *end*, *marks* between them.

    *stacked*: what differs takes two lines, the left side's above the right side's.
    """
    waiting = sorted(marks, key=lambda mark: mark.offset)
    first = pairs[0].offset if pairs else end
    waiting = [mark for mark in waiting if first <= mark.offset <= end]
    rows: list[DiffRow] = []
    for place, pair in enumerate(pairs):
        while waiting and waiting[0].offset <= pair.offset:
            rows.append(DiffRow(place, None, mark=waiting.pop(0)))
        rows += [DiffRow(place, pair, side) for side in _sides(pair, stacked=stacked)]
    last = max(len(pairs) - 1, 0)
    return [*rows, *(DiffRow(last, None, mark=mark) for mark in waiting)]


def _sides(pair: RecordPair, *, stacked: bool) -> Iterator[Side]:
    if not stacked or pair.kind is PairKind.EQUAL:
        yield Side.BOTH
        return
    if pair.left is not None:
        yield Side.LEFT
    if pair.right is not None:
        yield Side.RIGHT


def marks_of(facing: Facing) -> Iterator[OffsetMark]:
    """Where the two part, where either ends, and what was committed, by what their brokers say."""
    if not isinstance(facing.divergence, Unknown):
        yield OffsetMark(facing.divergence, parting_text(facing), parting=True)
    yield from _high_watermarks(facing)
    for log in (facing.left, facing.right):
        if not isinstance(log.log_end, Unknown):
            committed = ", all of it committed" if log.high_watermark == log.log_end else ""
            yield OffsetMark(log.log_end, f"b{log.broker} ends at {log.log_end:,}{committed}")


def _high_watermarks(facing: Facing) -> Iterator[OffsetMark]:
    """Up to where each side knows its records to be committed, if that is not all of them."""
    told: dict[int, list[str]] = {}
    for log in (facing.left, facing.right):
        mark = log.high_watermark
        if not isinstance(mark, Unknown) and mark != log.log_end:
            told.setdefault(mark, []).append(f"b{log.broker}")
    for mark, names in told.items():
        yield OffsetMark(mark, f"committed up to {mark:,}, as {' and '.join(names)} heard")


def parting_text(facing: Facing) -> str:
    """``diverge at 100: b1 in epoch 2, b2 in epoch 1``."""
    at = facing.divergence
    if isinstance(at, Unknown):
        return f"it is unknown where they diverge: {at.reason}"
    return f"diverge at {at:,}: {_goes_on(facing.left, at)}, {_goes_on(facing.right, at)}"


def _goes_on(log: ReplicaLog, at: int) -> str:
    if log.log_end == at:
        return f"b{log.broker} ends"
    epoch = log.epochs.epoch_at(at) if isinstance(log.epochs, EpochHistory) else None
    return f"b{log.broker} continues" if epoch is None else f"b{log.broker} in epoch {epoch}"


def letters(pair: RecordPair) -> str:
    """The fields that differ, a letter each."""
    return "".join(LETTERS[field] for field in pair.fields)


def fields_told(pair: RecordPair, *, letters: bool = True) -> str:
    """The fields that differ: ``epoch (e), value (v)``; *letters* are those of the list."""
    return ", ".join(
        [f"{field} ({LETTERS[field]})" if letters else str(field) for field in pair.fields]
    )


def about(pair: RecordPair, facing: Facing, *, letters: bool = True) -> str:
    """What *pair* is, in words: ``offset 100: different in epoch (e), value (v)``."""
    if pair.kind is PairKind.DIFFERENT:
        return f"offset {pair.offset:,}: different in {fields_told(pair, letters=letters)}"
    for item, log in ((pair.left, facing.left), (pair.right, facing.right)):
        if isinstance(item, UnreadableRange):
            return (
                f"b{log.broker} cannot be read from {item.start:,} to {item.end:,}: {item.reason}"
            )
    only = facing.left if pair.kind is PairKind.LEFT else facing.right
    where = "the same on both" if pair.kind is PairKind.EQUAL else f"only on b{only.broker}"
    return f"offset {pair.offset:,}: {where}"


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


CUT_SIGN = "…"


def segments_of(
    text: str, spans: Iterable[Span], base: Style, different: Style
) -> Iterator[Segment]:
    """*text* with the characters of *spans* in the style *different*."""
    at = 0
    for start, end in spans:
        if at < start:
            yield Segment(text[at:start], base)
        if start < end:
            yield Segment(text[start:end], different)
        at = max(at, end)
    if at < len(text):
        yield Segment(text[at:], base)


def piece_segments(piece: ColumnPiece, base: Style, different: Style) -> Iterator[Segment]:
    """*piece* in exactly its width; what is cut ends with a sign."""
    width, text = max(piece.width, 0), piece.text
    length = cell_len(text)
    if length > width:
        kept = _fitting(text, width - len(CUT_SIGN))
        yield from segments_of(text[:kept], clipped(piece.spans, kept), base, different)
        if width:
            yield Segment(CUT_SIGN, base)
        left = width - len(CUT_SIGN) - cell_len(text[:kept])
        if left > 0:
            yield Segment(" " * left, base)
        return
    if piece.right and length < width:
        yield Segment(" " * (width - length), base)
    yield from segments_of(text, piece.spans, base, different)
    if not piece.right and length < width:
        yield Segment(" " * (width - length), base)


def line_segments(
    pieces: Iterable[ColumnPiece], width: int, base: Style, different: Style
) -> list[Segment]:
    """*pieces* one after another with a space between, in exactly *width* cells.

    As segments: each `Strip` costs as much as ten of them.
    """
    found: list[Segment] = []
    length = -1
    for piece in pieces:
        if found or length >= 0:
            found.append(Segment(" ", base))
        found.extend(piece_segments(piece, base, different))
        length += 1 + max(piece.width, 0)
    length = max(length, 0)
    if length < width:
        found.append(Segment(" " * (width - length), base))
    elif length > width:
        return list(Strip(found, length).crop(0, width))
    return found


def clipped(spans: Iterable[Span], end: int) -> Iterator[Span]:
    """*spans* as far as they lie before the character *end*."""
    for span in spans:
        if span[0] < end:
            yield span[0], min(span[1], end)


def _fitting(text: str, width: int) -> int:
    """How many characters of *text* fit into *width* cells."""
    if width <= 0:
        return 0
    if text.isascii():
        return width
    cells = 0
    for place, character in enumerate(text):
        cells += cell_len(character)
        if cells > width:
            return place
    return len(text)


STACKED_BELOW = 79
"""Columns under which the sides stand below each other."""
WIDE = 100
CURSOR_SIGN = "▌"
BETWEEN = " │ "


@dataclass(frozen=True, slots=True)
class Titles:
    """What stands over the two sides."""

    left: str = ""
    right: str = ""
    brief_left: str = ""
    """Where there is less room."""
    brief_right: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """Draws lines of one width."""

    width: int
    offset_width: int
    plain: Style
    styles: Callable[[Role], Style]
    manner: Manner
    single: bool = False
    """There is one side alone."""
    marked: Container[int] = frozenset()
    """Offsets that the operator has marked."""

    @property
    def stacked(self) -> bool:
        return self.single or self.width < STACKED_BELOW

    @property
    def bar(self) -> Style:
        return self.plain + self.styles(Role.MUTED)

    def header(self, titles: Titles) -> Strip:
        style = self.plain + self.styles(Role.HEADING)
        head = ColumnPiece("  Offset", self._head_width)
        if self.stacked:
            text = f"< {titles.brief_left}   > {titles.brief_right}"
            text = titles.left if self.single else text
            named = [head, ColumnPiece(text, self.width - head.width - 1)]
            return Strip(line_segments(named, self.width, style, style), self.width)
        left, right = ColumnPiece(titles.left, self._half), ColumnPiece(titles.right, self._half)
        begun = line_segments([head, left], head.width + 1 + self._half, style, style)
        ended = line_segments([right], self._half, style, style)
        line = Strip([*begun, Segment(BETWEEN, style), *ended])
        return line.adjust_cell_length(self.width, style)

    def mark(self, mark: OffsetMark) -> Strip:
        style = self.plain + self.styles(Role.DIVERGED if mark.parting else Role.MUTED)
        text = f"── {bounded(mark.text, self.width)} "
        line = Strip([Segment(text + "─" * self.width, style)])
        return line.adjust_cell_length(self.width, style)

    def pair(self, row: DiffRow, pair: RecordPair, *, here: bool) -> Strip:
        """A line of *pair*; *here*: the cursor is on it."""
        base = self.plain + self.styles(Role.CURSOR) if here else self.plain
        # Cursor, sign, the fields that differ and the offset.
        style = base + self._kind_style(pair.kind)
        fields = [
            ColumnPiece(CURSOR_SIGN if here else " ", 1),
            ColumnPiece(self._sign(row, pair), self._sign_width),
            ColumnPiece(str(pair.offset), self.offset_width, right=True),
        ]
        head = [*line_segments(fields, self._head_width, style, style), Segment(" ", base)]
        if self.stacked:
            sides = (pair.left, pair.right)
            one, other = sides[::-1] if row.side is Side.RIGHT else sides
            width = max(self.width - self._head_width - 1, 0)
            line = [*head, *self._side(one, other, pair, width, base)]
        else:
            line = [
                *head,
                *self._side(pair.left, pair.right, pair, self._half, base),
                Segment(BETWEEN, base),
                *self._side(pair.right, pair.left, pair, self._half, base),
            ]
        return Strip(line).adjust_cell_length(self.width, base)

    def _side(
        self, one: Item | None, other: Item | None, pair: RecordPair, width: int, base: Style
    ) -> list[Segment]:
        same = pair.kind is PairKind.EQUAL and not self.single
        style = base + self.styles(Role.MUTED) if same else base
        written = pieces(one, other, width, self.manner)
        return line_segments(written, width, style, style + self.styles(Role.DIFFERENT))

    def _kind_style(self, kind: PairKind) -> Style:
        if kind is PairKind.EQUAL:
            return Style.null() if self.single else self.styles(Role.MUTED)
        return self.styles(Role.UNKNOWN if kind is PairKind.UNREAD else Role.DIVERGED)

    def _sign(self, row: DiffRow, pair: RecordPair) -> str:
        if not self.single:
            return _sign(row, pair)
        unread = "?" if pair.kind is PairKind.UNREAD else ""
        return f"{'*' if pair.offset in self.marked else ''}{unread}"

    @property
    def _sign_width(self) -> int:
        if self.single:
            return 2
        return 8 if self.width >= WIDE else 6

    @property
    def _head_width(self) -> int:
        return 1 + 1 + self._sign_width + 1 + self.offset_width

    @property
    def _half(self) -> int:
        return max((self.width - self._head_width - 1 - len(BETWEEN)) // 2, 1)


def _sign(row: DiffRow, pair: RecordPair) -> str:
    """``!ev``; on a line of one side alone also which side it is: ``!<ev`` and ``!>``."""
    sign = pair.kind.value
    if row.side is not Side.BOTH and pair.kind in (PairKind.DIFFERENT, PairKind.UNREAD):
        sign += "<" if row.side is Side.LEFT else ">"
    return sign if row.side is Side.RIGHT else sign + letters(pair)


def side_title(log: ReplicaLog, *, best: bool, brief: bool = False) -> str:
    """``b1 best  0..125  epochs 0 2``; *brief*: without the epochs."""
    title = f"b{log.broker}{' best' if best else ''}  {count(log.log_start)}..{count(log.log_end)}"
    return title if brief else f"{title}  epochs {epochs_text(log.epochs)}"


def titles_of(facing: Facing, best: int | None) -> Titles:
    """What stands over the two sides."""
    return Titles(
        *(
            side_title(log, best=log.broker == best, brief=brief)
            for brief in (False, True)
            for log in (facing.left, facing.right)
        )
    )


def counted_from(facing: Facing) -> int:
    """The offset that differences are counted from: below it the two are known to be the same."""
    if facing.proven_same is not None and facing.proven_same.start == facing.extent.start:
        return facing.proven_same.end
    return facing.extent.start


def prefix_text(facing: Facing) -> str:
    """What the epochs prove about the beginning of both logs."""
    at, proven = facing.divergence, facing.proven_same
    if isinstance(at, Unknown):
        return f"It is unknown where they diverge ({at.reason}): read and compare."
    if proven is not None:
        since = "" if proven.start == facing.extent.start else f" from {proven.start:,}"
        return f"Same{since} up to {at:,}, by epochs."
    if facing.compacted is not False:
        return (
            f"By their epochs they diverge at {at:,}; each log may have been compacted on its own."
        )
    return f"They have no offset in common before {at:,}."


def totals_text(facing: Facing, totals: HunkTotals | None) -> str:
    """What differs, with its sign in the list: ``! 25 offsets hold different records, ...``."""
    start = counted_from(facing)
    where = "Then" if start == facing.divergence else f"From {start:,} on"
    if totals is None:
        return f"{where} nothing is counted yet: c counts."
    kinds = totals.kinds
    parts = [
        different_text(kinds[PairKind.DIFFERENT]),
        f"< {kinds[PairKind.LEFT]:,} only on b{facing.left.broker}",
        f"> {kinds[PairKind.RIGHT]:,} only on b{facing.right.broker}",
    ]
    parts += [f"= {kinds[PairKind.EQUAL]:,} the same"] if kinds[PairKind.EQUAL] else []
    parts += [f"? {kinds[PairKind.UNREAD]:,} not known"] if kinds[PairKind.UNREAD] else []
    return f"{where} {', '.join(parts)}."


def different_text(offsets: int) -> str:
    """``! 25 offsets hold different records``."""
    return f"! {offsets:,} offset{' holds' if offsets == 1 else 's hold'} different records"
