"""How the lines of the list are drawn: columns by the width there is, styles by their roles."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from breakglass.screens.diff.drawing import line_segments
from breakglass.screens.diff.pieces import ColumnPiece, Manner, pieces
from breakglass.screens.diff.rows import DiffRow, OffsetMark, Side, letters
from breakglass.services.divergence.align import HunkTotals, PairKind, RecordPair
from breakglass.services.divergence.entry import Item
from breakglass.services.divergence.replicas import Facing
from breakglass.services.model import ReplicaLog, Unknown
from breakglass.services.words.figures import count, epochs_text
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role

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
