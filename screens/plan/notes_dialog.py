"""The notes of a plan: read, added, removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from breakglass.screens.widgets.dialog import Dialog
from breakglass.screens.widgets.field import Field
from breakglass.screens.widgets.line_table import Cell, LineColumn, LineTable
from breakglass.services.words.inert import bounded

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
            LineColumn[NumberedNote]("No", lambda one: Cell(f"{one[0] + 1}"), right=True),
            LineColumn[NumberedNote](
                "Note", lambda one: Cell(bounded(one[1], SHOWN)), most=SHOWN, shrinks=True
            ),
        )
        yield LineTable(columns, lambda one: one[0], empty="no notes yet: n writes one")
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
