"""Which rows of a plan are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from breakglass.services.recovery.plan.row import PlanRow
from breakglass.services.words.inert import bounded


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
        "what cannot go on", lambda row: row.checked is not None and not row.checked.status.fine
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
