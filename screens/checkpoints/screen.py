"""The screen of checkpoints: looks at stores again and again, in a thread; changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget

from screens.checkpoints.columns import columns
from screens.checkpoints.facts import line_facts
from screens.checkpoints.messages import CheckpointsLooked
from screens.context import Context
from screens.messages import CopyAsked
from screens.page import Page
from screens.widgets.facts import Facts
from screens.widgets.line_table import LineTable
from services.checkpoint.backup_info import backup_info
from services.checkpoint.watch import CheckpointLine, Line, PartitionLine, SeenStore, key_of, lines

LOOK_SECONDS = 2.0
"""Between two looks: each reads every small file of every store."""
NO_STORES = "No store of checkpoints is named: start with --checkpoints URL."


class CheckpointsScreen(Page):
    """Stores, checkpoints, partitions; what is known of the one under the cursor."""

    TITLE = "Checkpoints"
    ABOUT = (
        "Consistent checkpoints of many partitions and groups: level, state, how far each copy is, "
        "and why one has failed. Nothing can be changed from here: `breakglass checkpoint` takes, "
        "restores and deletes."
    )
    DEFAULT_CSS = """
    CheckpointsScreen #checkpoints { height: 1fr; }
    CheckpointsScreen #about { border-top: solid $border-blurred; max-height: 50%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "open(True)", "Open", show=False),
        Binding("left", "open(False)", "Close", show=False),
        Binding("y", "copy", "copy", tooltip="Copy the checkpoint of this line, as JSON"),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._stores: tuple[SeenStore, ...] = ()
        self._opened: frozenset[tuple[str, int]] = frozenset()
        self._looked_at: float | None = None
        self._looking = False

    def body(self) -> Iterator[Widget]:
        yield LineTable[Line](columns(0), key_of, id="checkpoints", empty=NO_STORES)
        yield Facts(id="about")

    def on_mount(self) -> None:
        self._table.focus()

    def show_known(self) -> None:
        self._look()

    def tick(self) -> None:
        self._look()

    def action_ask_refresh(self) -> None:
        self._looked_at = None
        self._look()
        super().action_ask_refresh()

    def action_open(self, opened: bool) -> None:
        """Open or close the checkpoint that the cursor is on, or in."""
        line = self._table.current
        if not isinstance(line, CheckpointLine | PartitionLine):
            return
        key = (line.url, line.found.id)
        self._opened = self._opened | {key} if opened else self._opened - {key}
        self._show()
        if not opened:
            self._table.move_to((*key, 0))

    @on(LineTable.Chosen, "#checkpoints")
    def _chosen(self, message: LineTable.Chosen) -> None:
        line: Line = message.row
        if isinstance(line, CheckpointLine):
            self.action_open(not line.opened)

    @on(LineTable.Moved, "#checkpoints")
    def _moved(self) -> None:
        self._tell()

    def action_copy(self) -> None:
        line = self._table.current
        if isinstance(line, CheckpointLine | PartitionLine):
            told = json.dumps(backup_info(line.found), indent=1)
            self.app.post_message(CopyAsked(told, f"checkpoint {line.found.id}"))

    @on(CheckpointsLooked)
    def _looked(self, message: CheckpointsLooked) -> None:
        self._looking = False
        self._stores = message.stores
        self._show()

    @property
    def _table(self) -> LineTable[Line]:
        return self.query_one("#checkpoints", LineTable)

    def _show(self) -> None:
        self._table.set_columns(columns(self.context.checkpoints.clock()))
        self._table.set_rows(tuple(lines(self._stores, self._opened)))
        self._tell()

    def _tell(self) -> None:
        self.query_one("#about", Facts).facts = tuple(line_facts(self._table.current))

    def _look(self) -> None:
        """Look at the stores if it is time, in a thread: one that hangs keeps no key waiting."""
        now, last = self.context.clock(), self._looked_at
        if self._looking or (last is not None and now - last < LOOK_SECONDS):
            return
        self._looking, self._looked_at = True, now
        self.run_worker(self._read, group="checkpoints", thread=True, exit_on_error=False)

    def _read(self) -> None:
        """In a thread."""
        stores = self._stores
        try:
            stores = self.context.checkpoints.look()
        finally:
            self.post_message(CheckpointsLooked(stores))
