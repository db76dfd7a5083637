"""What a guarded act has told so far, folded into rows and lines. Only its screen changes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from screens.widgets.line_table import Cell, LineColumn
from screens.widgets.status_bar import LinePart
from services.checkpoint.guarded.act import ActStep, Event, TargetOutcome, TargetResult
from themes.roles import Role

ROLES = {
    TargetResult.DONE: Role.VERIFIED,
    TargetResult.FAILED: Role.FAILED,
    TargetResult.UNKNOWN: Role.UNKNOWN,
}
LABELS = {TargetResult.DONE: "Done", TargetResult.FAILED: "Failed", TargetResult.UNKNOWN: "Unknown"}
SHOWN = 6
"""Lines that are kept in view."""


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """One partition, and what came of it."""

    name: str
    told: str
    role: Role | None


COLUMNS: tuple[LineColumn[OutcomeRow], ...] = (
    LineColumn("Topic-partition", lambda row: Cell(row.name), most=60, shrinks=True),
    LineColumn("State", lambda row: Cell(row.told, row.role), most=60, shrinks=True),
)


@dataclass(slots=True)
class ActProgress:
    """How far one act is."""

    begun: bool = False
    """Something was done, or may have been."""
    _rows: dict[str, OutcomeRow] = field(default_factory=dict)
    _lines: list[tuple[str, LinePart]] = field(default_factory=list)
    _underway: str = ""

    @property
    def rows(self) -> Sequence[OutcomeRow]:
        """The partitions; once something was told, those first that need the operator."""
        order = [Role.FAILED, Role.UNKNOWN]
        return sorted(self._rows.values(), key=lambda row: row.role not in order)

    @property
    def steps(self) -> list[tuple[str, LinePart]]:
        """The last lines, each with its label."""
        lines = self._lines[-SHOWN:]
        return [*lines, ("", LinePart(self._underway, Role.RUNNING))] if self._underway else lines

    def begin(self, targets: Iterable[str]) -> None:
        """Nothing came of *targets* yet."""
        self.clear()
        self._rows = {one: OutcomeRow(one, "asked", Role.MUTED) for one in targets}

    def clear(self) -> None:
        """Forget what was said."""
        self._lines.clear()
        self._underway = ""

    def say(self, told: str, role: Role | None = None, label: str = "") -> None:
        """Add a line; what was under way before it is over."""
        self._underway = ""
        self._lines.append((label, LinePart(told, role)))

    def take(self, event: Event) -> None:
        """Fold *event* in."""
        self.begun = True
        if isinstance(event, ActStep):
            self.say(event.told)
        elif isinstance(event, TargetOutcome):
            role = ROLES[event.result]
            told = f"{event.result}: {event.told}"
            self._rows[event.target] = OutcomeRow(event.target, told, role)
        else:
            self._underway = event.told

    def end(self, result: TargetResult | None, told: str) -> None:
        """It is over; None: nothing was done."""
        if result is None:
            self.say(told, Role.FAILED)
        else:
            self.say(told, ROLES[result], LABELS[result])
