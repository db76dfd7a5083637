"""Which partitions are in trouble of one kind, by topic: over the overview, until Esc."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from breakglass.screens.context import Context
from breakglass.screens.overview.messages import TroubledFound
from breakglass.screens.widgets.line_table import Cell, LineColumn, LineTable
from breakglass.services.health.counts import Trouble
from breakglass.services.model import PartitionState
from breakglass.services.recovery.timeline.moments import partition_numbers
from breakglass.services.words.figures import count


class TopicRow(NamedTuple):
    """The partitions of one topic whose ISR is of one size."""

    topic: str
    in_sync: int
    replicas: int
    partitions: tuple[int, ...]


class TroubledScreen(ModalScreen[None]):
    """Topics with partitions in trouble, the fewest in sync first."""

    CSS = """
    TroubledScreen { align: center middle; }
    TroubledScreen > Vertical {
        width: 90%; height: 90%; border: round $primary; background: $surface;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "Close")]

    def __init__(self, context: Context, trouble: Trouble) -> None:
        super().__init__()
        self.context, self._trouble = context, trouble

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(f"Partitions {self._trouble}, with a leader (Esc closes)", markup=False)
            yield LineTable[TopicRow](COLUMNS, lambda row: row, empty="Looking.")

    def on_mount(self) -> None:
        self.run_worker(self._look, group="troubled", thread=True, exit_on_error=False)

    @on(TroubledFound)
    def _found(self, message: TroubledFound) -> None:
        table: LineTable[TopicRow] = self.query_one(LineTable)
        table.set_empty("None.")
        table.set_rows(list(topic_rows(message.partitions)))

    def _look(self) -> None:
        """In a thread: 100,000 partitions take a moment."""
        self.post_message(TroubledFound(self.context.health.partitions_in(self._trouble)))


def topic_rows(partitions: Sequence[PartitionState]) -> Iterator[TopicRow]:
    """*partitions* by topic and size of their ISR, the fewest in sync first."""
    held: dict[tuple[int, str, int], list[int]] = {}
    for one in partitions:
        alike = (len(one.isr), one.partition.topic, len(one.assignment))
        held.setdefault(alike, []).append(one.partition.partition)
    for in_sync, topic, replicas in sorted(held):
        numbers = held[in_sync, topic, replicas]
        yield TopicRow(topic, in_sync, replicas, tuple(numbers))


COLUMNS: tuple[LineColumn[TopicRow], ...] = (
    LineColumn("Topic", lambda row: Cell(row.topic), shrinks=True),
    LineColumn("In sync", lambda row: Cell(f"{row.in_sync} of {row.replicas}"), right=True),
    LineColumn("Count", lambda row: Cell(count(len(row.partitions))), right=True),
    LineColumn("Partitions", lambda row: Cell(partition_numbers(row.partitions)), most=200),
)
