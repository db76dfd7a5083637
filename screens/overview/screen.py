"""The screen of the overview: reads only, shows only, and leads to the rest.

Asks the brokers about themselves for the overview, over connections that are kept.

Everything that is known of one broker: over the overview, until Esc.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from breakglass.screens.context import Context
from breakglass.screens.messages import IntervalChanged, OfflineAsked
from breakglass.screens.overview.broker_rows import (
    ASK_EVERY_SECONDS,
    BrokerRow,
    broker_columns,
    broker_rows,
)
from breakglass.screens.overview.messages import BrokersAsked, BrokerSettingsRead, TroubledFound
from breakglass.screens.overview.troubles import TroubleRow, facts_of, trouble_columns, trouble_rows
from breakglass.screens.page import Page
from breakglass.screens.refreshing import in_words
from breakglass.screens.widgets.facts import Facts
from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.line_table import LineTable
from breakglass.screens.widgets.overlay import Overlay
from breakglass.screens.widgets.status_bar import LinePart, age_text
from breakglass.services import patience
from breakglass.services.health.answers import LANE
from breakglass.services.health.counts import NOT_READ, Trouble
from breakglass.services.health.monitor import Health
from breakglass.services.kafka.cluster.broker_log_dirs import BrokerLogDir
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, Unknown, known
from breakglass.services.recovery.timeline.moments import partition_numbers
from breakglass.services.snapshot import Broker
from breakglass.services.words.figures import count, shown
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role, role_style

if TYPE_CHECKING:
    from breakglass.screens.context import Context
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.snapshot import Broker


SETTINGS = (
    "advertised.listeners",
    "listeners",
    "process.roles",
    "log.dirs",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)
LENGTH = 300
UNREAD = Unknown("they are being read")
GIGA, MEGA = 1 << 30, 1 << 20


class BrokerDetails(Overlay):
    """One broker."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "dismiss", "Close"),
        Binding("o", "offline", "Offline partitions with a replica on it"),
    ]

    def __init__(self, context: Context, row: BrokerRow) -> None:
        super().__init__()
        self.context, self._row = context, row
        self._settings: Mapping[str, str | None] | Unknown = UNREAD

    def on_mount(self) -> None:
        self.run_worker(self._read, group="broker", thread=True, exit_on_error=False)

    def action_offline(self) -> None:
        self.app.post_message(OfflineAsked(f"broker:{self._row.id}"))
        self.dismiss()

    @on(BrokerSettingsRead)
    def _told(self, message: BrokerSettingsRead) -> None:
        self._settings = message.settings
        self.show_again()

    def _read(self) -> None:
        """In a thread: ask the broker for its settings."""
        self.post_message(BrokerSettingsRead(self._asked()))

    def _asked(self) -> Mapping[str, str | None] | Unknown:
        from breakglass.services.kafka.cluster.broker_settings import read_broker_settings

        bundle = self.context.bundle
        if bundle is not None:
            return bundle.broker_settings(self._row.id, SETTINGS)
        deadline = Deadline.after(patience.BRIEF)
        try:
            with self.context.reading() as client:
                client.describe(deadline)
                return read_broker_settings(client.sender, self._row.id, SETTINGS, deadline, LANE)
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            return Unknown(in_words(error, "its answer cannot be read"))

    def content(self) -> RenderableType:
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        heading = role_style(self.app, Role.HEADING)
        for label, part in self._lines():
            style = role_style(self.app, part.role) if part.role else ""
            table.add_row(Text(label, heading), Text(bounded(part.text, LENGTH), style))
        keys = "Esc closes, o shows its offline partitions"
        table.add_row("", Text(keys, role_style(self.app, Role.MUTED)))
        return table

    def _lines(self) -> Iterator[tuple[str, LinePart]]:
        broker, state = self._row.health, self._row.state
        yield f"Broker {broker.id}", LinePart(state.text, state.role)
        if broker.registration is not None:
            registration = broker.registration
            yield "Address", LinePart(f"{registration.host}:{registration.port}")
            yield "Rack", LinePart(registration.rack or "-")
            yield "Fenced", _fenced(registration.fenced)
        held = broker.held
        yield (
            "Replicas",
            LinePart(
                f"{count(held.replicas)}, {count(held.in_sync)} in sync, leads {count(held.leads)}"
            ),
        )
        yield from self._log_dirs()
        yield from self._told_settings()

    def _log_dirs(self) -> Iterator[tuple[str, LinePart]]:
        figure = self._row.health.voice.log_dirs
        if isinstance(figure.value, Unknown):
            yield "Log dirs", LinePart(f"? {figure.value.reason}", Role.UNKNOWN)
            return
        for number, log_dir in enumerate(figure.value):
            yield "" if number else "Log dirs", _log_dir(log_dir)
        age = age_text(figure.age_ms(self._row.now_ms) / 1_000)
        if figure.failed is not None:
            yield "", LinePart(f"STALE {age}: {figure.failed.reason}", Role.STALE)
        else:
            yield "", LinePart(f"read {age} ago", Role.MUTED)

    def _told_settings(self) -> Iterator[tuple[str, LinePart]]:
        if isinstance(self._settings, Unknown):
            yield "Settings", LinePart(f"? {self._settings.reason}", Role.UNKNOWN)
            return
        for key, value in self._settings.items():
            yield key, LinePart(shown(value))


def _fenced(fenced: bool | Unknown) -> LinePart:
    if isinstance(fenced, Unknown):
        return LinePart(f"? {fenced.reason}", Role.UNKNOWN)
    return (
        LinePart("yes: it leads nothing until it is unfenced", Role.OFFLINE)
        if fenced
        else LinePart("no")
    )


def _log_dir(log_dir: BrokerLogDir) -> LinePart:
    if not log_dir.online:
        return LinePart(f"{log_dir.path} OFFLINE: {log_dir.why_offline}", Role.OFFLINE)
    return LinePart(f"{log_dir.path}, {_free(log_dir)}")


def _free(log_dir: BrokerLogDir) -> str:
    """How much room there is; one number without the other says nothing."""
    if isinstance(log_dir.usable_bytes, Unknown) or isinstance(log_dir.total_bytes, Unknown):
        return "free space ?"
    return f"{_size(log_dir.usable_bytes)} of {_size(log_dir.total_bytes)} free"


def _size(number: int) -> str:
    return f"{number / GIGA:,.1f} GiB" if number >= GIGA else f"{number / MEGA:,.1f} MiB"


class Asking:
    """For one thread at a time; the session's end closes what it opened (`Context.close`)."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stack = ExitStack()
        self._client: ReadClient | None = None
        self._reached: tuple[Broker, ...] = ()
        """Whose addresses the client knows."""

    def ask(self, brokers: tuple[Broker, ...]) -> None:
        """Refresh the context's health from *brokers*, which are those of the last snapshot.

        Raises:
            BreakglassError: nobody could be asked.
        """
        if self._client is None:
            self._client = self._stack.enter_context(self._context.reading())
        if brokers != self._reached:
            self._client.describe(Deadline.after(patience.LOOK))
            self._reached = brokers
        self._context.health.ask(self._client)


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
