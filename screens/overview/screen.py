"""The screen of the overview: reads only, shows only, and leads to the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from breakglass.screens.context import Context
from breakglass.screens.messages import IntervalChanged, OfflineAsked
from breakglass.screens.overview.asking import Asking
from breakglass.screens.overview.broker_details import BrokerDetails
from breakglass.screens.overview.broker_rows import (
    ASK_EVERY_SECONDS,
    BrokerRow,
    broker_columns,
    broker_rows,
)
from breakglass.screens.overview.messages import BrokersAsked, TroubledFound
from breakglass.screens.overview.troubles import TroubleRow, facts_of, trouble_columns, trouble_rows
from breakglass.screens.page import Page
from breakglass.screens.refreshing import in_words
from breakglass.screens.widgets.facts import Facts
from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.line_table import LineTable
from breakglass.services.health.counts import NOT_READ, Trouble
from breakglass.services.health.monitor import Health
from breakglass.services.model import PartitionState, known
from breakglass.services.recovery.timeline.moments import partition_numbers
from breakglass.services.snapshot import Broker
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
            seen = self.context.last_seen
            when = f", as last seen {seen}" if seen else ""
            told = f"Partitions {self._trouble}, with a leader{when} (Esc closes)"
            yield Static(told, markup=False)
            yield LineTable[TopicRow](COLUMNS, lambda row: row, empty="Looking.")

    def on_mount(self) -> None:
        self.run_worker(self._look, group="troubled", thread=True, exit_on_error=False)

    @on(TroubledFound)
    def _found(self, message: TroubledFound) -> None:
        table: LineTable[TopicRow] = self.query_one(LineTable)
        seen = self.context.last_seen
        table.set_empty(f"None at {seen}." if seen else "None.")
        table.set_rows(list(topic_rows(message.partitions)))

    def _look(self) -> None:
        """In a thread: 100,000 partitions take a moment."""
        self.post_message(TroubledFound(self.context.health.partitions_in(self._trouble)))


def topic_rows(partitions: Sequence[PartitionState]) -> Iterator[TopicRow]:
    """*partitions* by topic and size of their ISR, the fewest in sync first."""
    held: dict[tuple[int, str, int], list[int]] = {}
    for state in partitions:
        alike = (len(state.isr), state.partition.topic, len(state.assignment))
        held.setdefault(alike, []).append(state.partition.partition)
    for in_sync, topic, replicas in sorted(held):
        numbers = held[in_sync, topic, replicas]
        yield TopicRow(topic, in_sync, replicas, tuple(numbers))


COLUMNS: tuple[LineColumn[TopicRow], ...] = (
    LineColumn("Topic", lambda row: Cell(row.topic), shrinks=True),
    LineColumn("In sync", lambda row: Cell(f"{row.in_sync} of {row.replicas}"), right=True),
    LineColumn("Count", lambda row: Cell(count(len(row.partitions))), right=True),
    LineColumn("Partitions", lambda row: Cell(partition_numbers(row.partitions)), most=200),
)


INTERVALS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Seconds between two refreshes that can be chosen."""


class OverviewScreen(Page):
    """The cluster at a glance."""

    TITLE = "Overview"
    ABOUT = (
        "The cluster at a glance; each figure says how old it is. This screen changes nothing. "
        "Counts are those of the brokers' metrics: an offline partition is counted once."
    )
    CSS = """
    #troubles { height: 4; }
    #brokers { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "Next list"),
        Binding(
            "plus,equals_sign",
            "interval(1)",
            "Slower",
            key_display="+",
            tooltip="Refresh less often",
        ),
        Binding("minus", "interval(-1)", "Faster", key_display="-", tooltip="Refresh more often"),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._asking = Asking(context)
        self._asked_at: float | None = None
        self._ask_runs = False
        self._trouble = ""
        """Why brokers could not be asked."""

    def body(self) -> Iterator[Widget]:
        yield LineTable[TroubleRow]((), lambda row: row.trouble, id="troubles", lone=False)
        yield Facts()
        yield LineTable[BrokerRow](
            broker_columns(), lambda row: row.id, id="brokers", lone=False,
            empty="The cluster has not been read yet.",
        )  # fmt: skip

    def show_known(self) -> None:
        self._show()
        self._ask()

    def tick(self) -> None:
        self._show()
        self._ask()

    def action_ask_refresh(self) -> None:
        self._asked_at = None
        super().action_ask_refresh()

    def action_interval(self, by: int) -> None:
        """One step up or down among `INTERVALS`."""
        now = self.context.known.interval
        steps = [seconds for seconds in INTERVALS if (seconds > now if by > 0 else seconds < now)]
        if steps:
            self.app.post_message(IntervalChanged(steps[0] if by > 0 else steps[-1]))

    @on(LineTable.Chosen, "#troubles")
    def _open_trouble(self, message: LineTable.Chosen) -> None:
        row: TroubleRow = message.row
        if row.trouble is Trouble.OFFLINE:
            self.app.post_message(OfflineAsked())
        else:
            self.app.push_screen(TroubledScreen(self.context, row.trouble))

    @on(LineTable.Chosen, "#brokers")
    def _open_broker(self, message: LineTable.Chosen) -> None:
        self.app.push_screen(BrokerDetails(self.context, message.row))

    @on(BrokersAsked)
    def _asked(self, message: BrokersAsked) -> None:
        self._ask_runs, self._trouble = False, message.trouble
        self._show()

    def _show(self) -> None:
        health, now_ms = self.context.health.health, self.context.health.now_ms()
        troubles = self.query_one("#troubles", LineTable)
        troubles.set_columns(trouble_columns(health, now_ms))
        troubles.set_rows(trouble_rows(health, now_ms, self.size.width))
        facts = facts_of(health, self.context.known, self._trouble, now_ms)
        self.query_one(Facts).facts = facts
        self.query_one("#brokers", LineTable).set_rows(broker_rows(health, now_ms))

    def _ask(self) -> None:
        """Ask the brokers about themselves, if it is time and nothing forbids it."""
        now, last = self.context.clock(), self.context.known
        brokers = self.context.health.brokers
        wait = last.interval if _wanting(self.context.health.health) else ASK_EVERY_SECONDS
        due = self._asked_at is None or now - self._asked_at >= min(wait, ASK_EVERY_SECONDS)
        idle = self._ask_runs or last.paused or self.context.bundle is not None
        if idle or not due or not brokers:
            return
        self._ask_runs, self._asked_at = True, now
        self.run_worker(
            lambda: self._ask_brokers(brokers), group="brokers", thread=True, exit_on_error=False
        )

    def _ask_brokers(self, brokers: tuple[Broker, ...]) -> None:
        """In a thread."""
        trouble = ""
        try:
            self._asking.ask(brokers)
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            trouble = in_words(error, "their answers cannot be read")
        self.post_message(BrokersAsked(trouble))


def _wanting(health: Health) -> bool:
    """Whether a count is only a lower bound for want of asking."""
    counts = health.counts.value
    return known(counts) and counts.why_unjudged == NOT_READ
