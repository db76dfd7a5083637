"""The columns of the plan's table, and which rows of a plan are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.services.model import Unknown
from breakglass.services.recovery.plan.check import CheckStatus
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.rows import PlanRow

VERDICT_ROLES = {
    "BOMB": Role.BOMB,
    "FORK": Role.FORK,
    "LOSS": Role.LOST,
    "STUCK": Role.STUCK,
    "WAIT": Role.WAITING,
    "SAFE": Role.SAFE,
}
STATUS_ROLES = {
    CheckStatus.UNCHANGED: Role.VERIFIED,
    CheckStatus.RERANKED: Role.VERIFIED,
    CheckStatus.NEW: Role.VERIFIED,
    CheckStatus.ONLINE: Role.VERIFIED,
    CheckStatus.CHANGED: Role.STALE,
    CheckStatus.GONE: Role.STALE,
    CheckStatus.REFUSED: Role.FAILED,
}


def _verdict(row: PlanRow) -> Cell:
    return Cell(row.verdict or "?", VERDICT_ROLES.get(row.verdict))


def _leader(row: PlanRow) -> Cell:
    """Elected whom; a sign of its own where that is not what is recommended."""
    sign = "≠" if row.departs else ""
    if row.leader is None:
        return Cell(f"{sign}out", Role.DIFFERENT if row.departs else Role.MUTED)
    return Cell(f"{sign}b{row.leader}", Role.DIFFERENT if row.departs else Role.DESIGNEE)


def _recommended(row: PlanRow) -> Cell:
    return Cell("-") if row.recommended is None else Cell(f"b{row.recommended}")


def _loses(row: PlanRow) -> Cell:
    if row.loses is None:
        return Cell("-") if row.leader is None else Cell("?", Role.UNKNOWN)
    if isinstance(row.loses.records, Unknown):
        return Cell("?", Role.UNKNOWN)
    return Cell(str(row.loses), Role.LOST if row.loses.records else None)


def _now(row: PlanRow) -> Cell:
    if row.checked is None:
        return Cell("-", Role.MUTED)
    return Cell(row.checked.status.value, STATUS_ROLES[row.checked.status])


WIDE = 100
"""Characters of a screen that has room for sentences in its rows."""


def columns_for(width: int) -> tuple[LineColumn[PlanRow], ...]:
    """The columns of a table of so many characters; names give way before sentences are there."""
    wide = width >= WIDE
    columns: tuple[LineColumn[PlanRow], ...] = (
        LineColumn("Verdict", _verdict),
        LineColumn("Topic-partition", _partition, shrinks=not wide, tail="-"),
        LineColumn("Elects", _leader),
        LineColumn("Best", _recommended),
        LineColumn("Loses", _loses, right=True),
        LineColumn("Unread", lambda row: Cell(row.unread), right=True),
        LineColumn("By", lambda row: Cell(row.chosen_by or "-"), least_width=64),
        LineColumn("Now", _now),
    )
    return (*columns, LineColumn("Why", _why, most=200, shrinks=True)) if wide else columns


def _partition(row: PlanRow) -> Cell:
    return Cell(str(row.partition))


def _why(row: PlanRow) -> Cell:
    return Cell(row.why)


class RowKind(NamedTuple):
    """One sort of rows."""

    words: str
    """Empty: all of them."""
    keeps: Callable[[PlanRow], bool]


KINDS = (
    RowKind("", lambda row: True),  # noqa: ARG005 -- every row is kept
    RowKind("what departs from the recommendation", lambda row: row.departs),
    RowKind("what is left out", lambda row: row.leader is None),
    RowKind(
        "what cannot be elected as planned",
        lambda row: row.checked is not None and not row.checked.status.fine,
    ),
)


class PlanFilter(NamedTuple):
    """A kind of rows, and what their names contain."""

    kind: int = 0
    contains: str = ""

    def rows(self, rows: Sequence[PlanRow]) -> Sequence[PlanRow]:
        """Those of *rows* that are shown."""
        if not self:
            return rows
        keeps, contains = KINDS[self.kind].keeps, self.contains
        return [row for row in rows if keeps(row) and contains in str(row.partition)]

    def __bool__(self) -> bool:
        """Whether it leaves out any."""
        return bool(self.kind or self.contains)

    def words(self, shown: int, total: int) -> str:
        """``showing what is left out (3 of 2,000); Esc shows all``; empty where all are shown."""
        if not self:
            return ""
        named = f"names with {bounded(self.contains, 40)}" if self.contains else ""
        what = ", ".join(filter(None, (KINDS[self.kind].words, named)))
        return f"showing {what} ({shown:,} of {total:,}); Esc shows all"

    def next_kind(self) -> PlanFilter:
        """The same names, another kind."""
        return self._replace(kind=(self.kind + 1) % len(KINDS))
