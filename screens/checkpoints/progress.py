"""What a guarded act has told so far, folded into rows and lines. Only its screen changes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from screens.widgets.line_table import Cell, LineColumn
from screens.widgets.status_bar import Part
from services.checkpoint.guarded.act import Event, Outcome, Result, Step
from themes.roles import Role

ROLES = {Result.DONE: Role.VERIFIED, Result.FAILED: Role.FAILED, Result.UNKNOWN: Role.UNKNOWN}
LABELS = {Result.DONE: "Done", Result.FAILED: "Failed", Result.UNKNOWN: "Unknown"}
SHOWN = 6
"""Lines that are kept in view."""


@dataclass(frozen=True, slots=True)
class Row:
    """One partition, and what came of it."""

    name: str
    told: str
    role: Role | None


COLUMNS: tuple[LineColumn[Row], ...] = (
    LineColumn("Topic-partition", lambda row: Cell(row.name), most=60, shrinks=True),
    LineColumn("State", lambda row: Cell(row.told, row.role), most=60, shrinks=True),
)


@dataclass(slots=True)
class Progress:
    """How far one act is."""

    begun: bool = False
    """Something was done, or may have been."""
    _rows: dict[str, Row] = field(default_factory=dict)
    _lines: list[tuple[str, Part]] = field(default_factory=list)
    _underway: str = ""

    @property
    def rows(self) -> Sequence[Row]:
        """The partitions; once something was told, those first that need the operator."""
        order = [Role.FAILED, Role.UNKNOWN]
        return sorted(self._rows.values(), key=lambda row: row.role not in order)

    @property
    def steps(self) -> list[tuple[str, Part]]:
        """The last lines, each with its label."""
        lines = self._lines[-SHOWN:]
        return [*lines, ("", Part(self._underway, Role.RUNNING))] if self._underway else lines

    def begin(self, targets: Iterable[str]) -> None:
        """Nothing came of *targets* yet."""
        self.clear()
        self._rows = {one: Row(one, "asked", Role.MUTED) for one in targets}

    def clear(self) -> None:
        """Forget what was said."""
        self._lines.clear()
        self._underway = ""

    def say(self, told: str, role: Role | None = None, label: str = "") -> None:
        """Add a line; what was under way before it is over."""
        self._underway = ""
        self._lines.append((label, Part(told, role)))

    def take(self, event: Event) -> None:
        """Fold *event* in."""
        self.begun = True
        if isinstance(event, Step):
            self.say(event.told)
        elif isinstance(event, Outcome):
            role = ROLES[event.result]
            told = f"{event.result}: {event.told}"
            self._rows[event.target] = Row(event.target, told, role)
        else:
            self._underway = event.told

    def end(self, result: Result | None, told: str) -> None:
        """It is over; None: nothing was done."""
        if result is None:
            self.say(told, Role.FAILED)
        else:
            self.say(told, ROLES[result], LABELS[result])
