"""What is wrong with a text that was edited by hand: by line and column, to be mended there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from breakglass.screens.widgets.dialog import Dialog
from breakglass.screens.widgets.line_table import Cell, LineColumn, LineTable

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.read_back import Problem


class ProblemsDialog(Dialog[int]):
    """Ends with the line to edit again at, or None: the text is dropped."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Edit again at this line"),
        Binding("escape", "leave", "Drop the text"),
    ]

    def __init__(self, problems: Sequence[Problem]) -> None:
        number = len(problems)
        super().__init__(f"The text is no plan yet: {number:,} fault{'s' * (number != 1)}")
        self._problems = problems

    def body(self) -> Iterator[Widget]:
        columns = (
            LineColumn["Problem"]("Line", lambda one: Cell(f"{one.line}"), right=True),
            LineColumn["Problem"]("Col", lambda one: Cell(f"{one.column}"), right=True),
            LineColumn["Problem"]("What", lambda one: Cell(one.what), most=200, shrinks=True),
        )
        yield LineTable(columns, lambda one: (one.line, one.column, one.what))

    def on_mount(self) -> None:
        table: LineTable[Problem] = self.query_one(LineTable)
        table.set_rows(self._problems)
        table.focus()
        self.say(str(self._problems[0]))

    @on(LineTable.Moved)
    def _moved(self, message: LineTable.Moved) -> None:
        self.say(str(message.row))

    @on(LineTable.Chosen)
    def _chosen(self, message: LineTable.Chosen) -> None:
        self.dismiss(message.row.line)

    def action_choose(self) -> None:
        self.query_one(LineTable).action_choose()
