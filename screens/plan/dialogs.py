"""Choosing who leads one partition: every replica, what it loses, and why others cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from breakglass.screens.widgets.dialog import Dialog, Field
from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.line_table import LineTable
from breakglass.services.model import TopicPartition, known
from breakglass.services.recovery.judgement.ranking import holds_records
from breakglass.services.recovery.plan.candidates import ReplicaCandidate
from breakglass.services.words.figures import count
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role


class LeaderDialog(Dialog[int]):
    """Ends with a broker that can be elected, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "choose", "Choose it")]

    def __init__(
        self,
        partition: TopicPartition,
        candidates: Sequence[ReplicaCandidate],
        leader: int | None,
        recommended: int | None,
    ) -> None:
        super().__init__(f"Who leads {partition}?")
        self._candidates, self._leader, self._recommended = candidates, leader, recommended

    def body(self) -> Iterator[Widget]:
        yield LineTable(
            self._columns(), lambda candidate: candidate.broker, empty="no replica is known"
        )

    def on_mount(self) -> None:
        table = self._table()
        table.set_rows(self._candidates)
        table.move_to(self._leader if self._leader is not None else self._recommended)
        table.focus()
        self._explain(table.current)

    @on(LineTable.Moved)
    def _moved(self, message: LineTable.Moved) -> None:
        self._explain(message.row)

    @on(LineTable.Chosen)
    def _chosen(self, message: LineTable.Chosen) -> None:
        chosen: ReplicaCandidate = message.row
        if chosen.eligible:
            self.dismiss(chosen.broker)
        else:
            self.say(f"b{chosen.broker} cannot be elected: {chosen.refusal}")

    def action_choose(self) -> None:
        self._table().action_choose()

    def _table(self) -> LineTable[ReplicaCandidate]:
        return self.query_one(LineTable)

    def _explain(self, candidate: ReplicaCandidate | None) -> None:
        if candidate is None:
            return
        if candidate.refusal:
            self.say(f"b{candidate.broker} cannot be elected: {candidate.refusal}", Role.UNKNOWN)
            return
        told = [_price(candidate)]
        if candidate.own_consent:
            told.append(f"Needs its own consent: {candidate.own_consent}.")
        self.say(" ".join(told), _role(candidate))

    def _columns(self) -> Sequence[LineColumn[ReplicaCandidate]]:
        return (
            LineColumn("Broker", self._broker),
            LineColumn("Role", lambda candidate: Cell(candidate.replica.role.value)),
            LineColumn("LEO", lambda candidate: Cell(count(candidate.replica.log_end)), right=True),
            LineColumn(
                "Epoch",
                lambda candidate: Cell(count(candidate.replica.last_written_epoch)),
                right=True,
            ),
            LineColumn("Loses", _loses, right=True),
            LineColumn("Can lead", _can, shrinks=True),
        )

    def _broker(self, candidate: ReplicaCandidate) -> Cell:
        remarks = []
        if candidate.broker == self._leader:
            remarks.append("elected")
        if candidate.broker == self._recommended:
            remarks.append("best")
        said = f" {', '.join(remarks)}" if remarks else ""
        return Cell(
            f"b{candidate.broker}{said}",
            Role.DESIGNEE if candidate.broker == self._leader else None,
        )


def _wipes(candidate: ReplicaCandidate) -> bool:
    """Its log has no record: electing it destroys all that the others hold."""
    return not holds_records(candidate.replica) and candidate.loses.records != 0


def _price(candidate: ReplicaCandidate) -> str:
    counted = candidate.loses if known(candidate.loses.records) else "an unknown number of records"
    if _wipes(candidate):
        return f"b{candidate.broker} is EMPTY: electing it DESTROYS {counted}."
    return f"Electing b{candidate.broker} loses {counted}."


def _role(candidate: ReplicaCandidate) -> Role | None:
    if _wipes(candidate):
        return Role.LOST
    return Role.UNKNOWN if candidate.own_consent else None


def _loses(candidate: ReplicaCandidate) -> Cell:
    if not known(candidate.loses.records):
        return Cell("DESTROYS ?", Role.LOST) if _wipes(candidate) else Cell("?", Role.UNKNOWN)
    if _wipes(candidate):
        return Cell(f"DESTROYS {candidate.loses}", Role.LOST)
    return Cell(str(candidate.loses), Role.LOST if candidate.loses.records else None)


def _can(candidate: ReplicaCandidate) -> Cell:
    if candidate.refusal:
        return Cell(f"no: {candidate.refusal}", Role.MUTED)
    return Cell("with its own consent" if candidate.own_consent else "yes")


SHOWN = 300
"""Characters of a note in the list; the whole is below."""

NumberedNote = tuple[int, str]


class NotesDialog(Dialog[tuple[str, ...]]):
    """Ends with the notes as they are to be, or None where nothing was changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Done"),
        Binding("n", "write", "New note"),
        Binding("x", "remove", "Remove"),
    ]

    def __init__(self, notes: Sequence[str]) -> None:
        super().__init__("Notes: kept in the plan, not part of its digest")
        self._before = self._notes = tuple(notes)

    def body(self) -> Iterator[Widget]:
        columns = (
            LineColumn[NumberedNote]("No", lambda note: Cell(f"{note[0] + 1}"), right=True),
            LineColumn[NumberedNote](
                "Note", lambda note: Cell(bounded(note[1], SHOWN)), most=SHOWN, shrinks=True
            ),
        )
        yield LineTable(columns, lambda note: note[0], empty="no notes yet: n writes a note")
        field = Field(placeholder="a new note, Enter keeps it", max_length=1_000, compact=True)
        field.display = False
        yield field

    def on_mount(self) -> None:
        self._show()
        self.query_one(LineTable).focus()

    @on(LineTable.Moved)
    @on(LineTable.Chosen)
    def _tell(self, message: LineTable.Moved | LineTable.Chosen) -> None:
        self.say(message.row[1] if message.row else "", None)

    @on(Field.Submitted)
    def _written(self, message: Field.Submitted) -> None:
        from breakglass.services.recovery.plan.notes import note_fault, number_fault

        note = message.value.strip()
        fault = note_fault(note) or number_fault((*self._notes, note)) if note else ""
        if fault:
            self.say(fault)
            return
        if note:
            self._notes = (*self._notes, note)
        self._close_field()

    def action_write(self) -> None:
        field = self.query_one(Field)
        field.display = True
        field.focus()

    def action_remove(self) -> None:
        table: LineTable[NumberedNote] = self.query_one(LineTable)
        if table.current is not None:
            gone = table.current[0]
            self._notes = (*self._notes[:gone], *self._notes[gone + 1 :])
            self._show()

    def action_leave(self) -> None:
        if self.query_one(Field).display:
            self._close_field()
        else:
            self.dismiss(None if self._notes == self._before else self._notes)

    def _close_field(self) -> None:
        field = self.query_one(Field)
        field.value, field.display = "", False
        self._show()
        self.query_one(LineTable).focus()

    def _show(self) -> None:
        self.query_one(LineTable).set_rows(list(enumerate(self._notes)))
        self.say("", None)
