"""What a guarded act has reported so far, as rows and lines. Only its page changes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from breakglass.screens.widgets.line_table import Cell, LineColumn
from breakglass.screens.widgets.status_bar import LinePart
from breakglass.services.guard.act import (
    ActEvent,
    ActStep,
    JournalOpened,
    TargetOutcome,
    TargetResult,
    Underway,
)
from breakglass.services.pipeline.acts.restore import CopyProgressed
from breakglass.themes.roles import Role

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
    text: str
    role: Role | None


COLUMNS: tuple[LineColumn[OutcomeRow], ...] = (
    LineColumn("Topic-partition", lambda row: Cell(row.name), most=60, shrinks=True),
    LineColumn("State", lambda row: Cell(row.text, row.role), most=60, shrinks=True),
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

    def say(self, text: str, role: Role | None = None, label: str = "") -> None:
        """Add a line; what was under way before it is over."""
        self._underway = ""
        self._lines.append((label, LinePart(text, role)))

    def take(self, event: ActEvent) -> None:
        """Fold *event* in."""
        self.begun = True
        if isinstance(event, JournalOpened):
            self.say(f"journal: {event.path}")
        elif isinstance(event, ActStep):
            self.say(event.text)
        elif isinstance(event, TargetOutcome):
            role = ROLES[event.result]
            text = f"{event.result}: {event.text}"
            self._rows[event.target] = OutcomeRow(event.target, text, role)
        elif isinstance(event, Underway | CopyProgressed):
            self._underway = event.text

    def end(self, result: TargetResult | None, text: str) -> None:
        """It is over; None: nothing was done."""
        if result is None:
            self.say(text, Role.FAILED)
        else:
            self.say(text, ROLES[result], LABELS[result])
