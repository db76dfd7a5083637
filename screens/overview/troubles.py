"""The rows that count partitions in trouble: now, at the worst, and the course since the start."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

from breakglass.screens.widgets.line_table import Cell, LineColumn
from breakglass.screens.widgets.sparkline import sparkline
from breakglass.screens.widgets.status_bar import age_text
from breakglass.services.health.counts import PartitionCounts, Trouble
from breakglass.services.health.history import Sample
from breakglass.services.health.monitor import Health
from breakglass.services.model import known
from breakglass.services.words.figures import count
from breakglass.themes.roles import Role

OTHER_COLUMNS = 40
"""What the columns beside the course take."""
NARROWEST = 8


class TroubleRow(NamedTuple):
    """One kind of trouble."""

    trouble: Trouble
    now: str
    role: Role | None
    peak: str
    course: str


def trouble_rows(health: Health, now_ms: int, width: int) -> list[TroubleRow]:
    """A row for each kind of trouble, for a table of *width* characters."""
    room = max(width - OTHER_COLUMNS, NARROWEST)
    return [_row(one, health, now_ms, room) for one in Trouble]


def trouble_columns(health: Health, now_ms: int) -> tuple[LineColumn[TroubleRow], ...]:
    """The columns; the title of the last says since when."""
    return (
        LineColumn(_total(health), lambda row: Cell(row.trouble)),
        LineColumn("Now", lambda row: Cell(row.now, row.role), right=True),
        LineColumn("Peak", lambda row: Cell(row.peak), right=True),
        LineColumn(_since(health, now_ms), lambda row: Cell(row.course, row.role), most=400),
    )


_ROLES = {
    Trouble.OFFLINE: Role.OFFLINE,
    Trouble.UNDER_MIN_ISR: Role.LOST,
    Trouble.UNDER_REPLICATED: Role.WAITING,
}
_OF: dict[Trouble, Callable[[Sample], int]] = {
    Trouble.OFFLINE: lambda sample: sample.offline,
    Trouble.UNDER_MIN_ISR: lambda sample: sample.under_min_isr,
    Trouble.UNDER_REPLICATED: lambda sample: sample.under_replicated,
}


def _row(trouble: Trouble, health: Health, now_ms: int, room: int) -> TroubleRow:
    counts, of = health.counts.value, _OF[trouble]
    if not known(counts):
        return TroubleRow(trouble, "?", Role.UNKNOWN, "?", "")
    number = counts.number(trouble)
    least = ">=" if trouble is Trouble.UNDER_MIN_ISR and counts.unjudged else ""
    role = _ROLES[trouble] if number else Role.UNKNOWN if least else None
    line = sparkline(health.history.line(of, room, now_ms))
    return TroubleRow(
        trouble, f"{least}{count(number)}", role, count(health.history.peak(of)), line
    )


def _total(health: Health) -> str:
    counts = health.counts.value
    return f"Of {counts.partitions:,} partitions" if known(counts) else "Partitions"


def _since(health: Health, now_ms: int) -> str:
    since = health.history.since_ms
    if since is None:
        return "Course"
    began = datetime.fromtimestamp(since / 1000, UTC)
    return f"Since {began:%H:%M}Z ({age_text((now_ms - since) / 1000)})"


def doubt_of(counts: PartitionCounts) -> str:
    """Why the number under min ISR may be higher; empty if it is not."""
    if not counts.unjudged:
        return ""
    return f"under min ISR: {counts.unjudged:,} more may be: {counts.why_unjudged}"
