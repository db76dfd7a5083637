"""The screen of the overview: reads only, shows only, and leads to the rest.

Asks the brokers about themselves for the overview, over connections that are kept.

Everything that is known of one broker: over the overview, until Esc.

What the threads of the overview report to it.

The rows that count partitions in trouble: now, at the worst, and the course since the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from breakglass.screens.context import Context, Known
from breakglass.screens.messages import IntervalChanged, OfflineAsked
from breakglass.screens.overview.broker_rows import (
    ASK_EVERY_SECONDS,
    BrokerRow,
    broker_columns,
    broker_rows,
)
from breakglass.screens.page import Page
from breakglass.screens.refreshing import in_words
from breakglass.screens.widgets.facts import NO_AGE, Fact, Facts
from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.line_table import LineTable
from breakglass.screens.widgets.overlay import Overlay
from breakglass.screens.widgets.status_bar import LinePart, age_text
from breakglass.services import patience
from breakglass.services.health.answers import LANE
from breakglass.services.health.backups import BackupGlance
from breakglass.services.health.brokers import BrokerHealth
from breakglass.services.health.counts import NOT_READ, Moves, PartitionCounts, Sample, Trouble
from breakglass.services.health.figure import Figure
from breakglass.services.health.monitor import Health
from breakglass.services.kafka.cluster.broker_log_dirs import BrokerLogDir
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, Silent, Unknown, known
from breakglass.services.recovery.judgement.succession import quorum_lost
from breakglass.services.recovery.timeline.moments import partition_numbers
from breakglass.services.snapshot import Broker, Quorum, Voter
from breakglass.services.words.figures import count, shown
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, role_style

if TYPE_CHECKING:
    from breakglass.screens.context import Context
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.model import PartitionState
    from breakglass.services.snapshot import Broker


OTHER_COLUMNS = 40
"""What the columns beside the course take."""
NARROWEST = 8
LEVELS = "▁▂▃▄▅▆▇█"
"""Zero has the lowest alone: one partition is seen among thousands. `screens.ascii` has signs."""


class TroubleRow(NamedTuple):
    """One kind of trouble."""

    trouble: Trouble
    now: str
    role: Role | None
    peak: str
    course: str


def trouble_rows(health: Health, now_ms: int, width: int) -> list[TroubleRow]:
    """A row for each kind of trouble, for a table of *width* characters."""
    room = max(width - OTHER_COLUMNS, NARROWEST)
    return [_row(trouble, health, now_ms, room) for trouble in Trouble]


def trouble_columns(health: Health, now_ms: int) -> tuple[LineColumn[TroubleRow], ...]:
    """The columns; the title of the last says since when."""
    counts = health.counts.value
    return (
        LineColumn(
            f"Of {counts.partitions:,} partitions" if known(counts) else "Partitions",
            lambda row: Cell(row.trouble),
        ),
        LineColumn(
            "Last" if health.counts.failed else "Now",
            lambda row: Cell(row.now, row.role),
            right=True,
        ),
        LineColumn("Peak", lambda row: Cell(row.peak), right=True),
        LineColumn(_since(health, now_ms), lambda row: Cell(row.course, row.role), most=400),
    )


_ROLES = {
    Trouble.OFFLINE: Role.OFFLINE,
    Trouble.UNDER_MIN_ISR: Role.LOST,
    Trouble.UNDER_REPLICATED: Role.WAITING,
}
_OF: dict[Trouble, Callable[[Sample], int]] = {
    Trouble.OFFLINE: lambda sample: sample.offline,
    Trouble.UNDER_MIN_ISR: lambda sample: sample.under_min_isr,
    Trouble.UNDER_REPLICATED: lambda sample: sample.under_replicated,
}


def sparkline(values: Sequence[int | None]) -> str:
    """One block for each of *values*, the highest as high as can be; None leaves a gap."""
    highest = max((value for value in values if value is not None), default=0)
    return "".join(" " if value is None else _level(value, highest) for value in values)


def _level(value: int, highest: int) -> str:
    if value <= 0:
        return LEVELS[0]
    top = len(LEVELS) - 1
    return LEVELS[max(1, -(-value * top // highest))]


def _row(trouble: Trouble, health: Health, now_ms: int, room: int) -> TroubleRow:
    counts, of = health.counts.value, _OF[trouble]
    if not known(counts):
        return TroubleRow(trouble, "?", Role.UNKNOWN, "?", "")
    number = counts.number(trouble)
    least = ">=" if trouble is Trouble.UNDER_MIN_ISR and counts.unjudged else ""
    role = _ROLES[trouble] if number else Role.UNKNOWN if least else None
    line = sparkline(health.history.line(of, room, now_ms))
    return TroubleRow(
        trouble, f"{least}{count(number)}", role, count(health.history.peak(of)), line
    )


def _since(health: Health, now_ms: int) -> str:
    since = health.history.since_ms
    if since is None:
        return "Course"
    began = datetime.fromtimestamp(since / 1000, UTC)
    return f"Since {began:%H:%M}Z ({age_text((now_ms - since) / 1000)})"


def doubt_of(counts: PartitionCounts) -> str:
    """Why the number under min ISR may be higher; empty if it is not."""
    if not counts.unjudged:
        return ""
    return f"under min ISR: {counts.unjudged:,} more are possible: {counts.why_unjudged}"


SHOWN_TOPICS = 3
BEHIND_MS = 3_000
"""A voter that has not fetched for so long is called silent (the default fetch timeout is 2 s)."""


def facts_of(health: Health, known_: Known, trouble: str, now_ms: int) -> tuple[Fact, ...]:
    """The sentences about *health*; *trouble* is why brokers could not be asked."""
    return tuple(
        _Writing(known_.failure, int(known_.interval * 1_000), now_ms).all(health, trouble)
    )


@dataclass(frozen=True, slots=True)
class _Writing:
    """What holds for all sentences of one moment."""

    told: str
    """Why the cluster could not be read: said above, and not in every sentence."""
    interval_ms: int
    """0: nothing is read again."""
    now_ms: int

    def all(self, health: Health, trouble: str) -> Iterator[Fact]:
        every = f"every {self.interval_ms / 1_000:g} s (+ -)"
        refresh = LinePart(every if self.interval_ms else "never: this is a bundle")
        yield Fact("Refresh", (refresh,), self._age(health.counts))
        yield self._fact("Quorum", health.quorum, _quorum(health.quorum))
        yield self._fact("Reassigning", health.reassignments, _moves(health.reassignments.value))
        for name, glance in health.backups.items():
            label = name[:1].upper() + name[1:10]
            yield self._fact(label, glance, _backup(glance.value))
        counts = health.counts.value
        if known(counts) and doubt_of(counts):
            yield Fact("Unknown", (LinePart(doubt_of(counts), Role.UNKNOWN),))
        if known(health.brokers.value):
            asked = min([broker.voice.asked_at_ms for broker in health.brokers.value], default=0)
            yield Fact("Brokers", tuple(_brokers(health.brokers.value, trouble)), self._aged(asked))

    def _fact(self, label: str, figure: Figure[Any], parts: Iterator[LinePart]) -> Fact:
        return Fact(label, (*parts, *self._why_stale(figure)), self._age(figure))

    def _why_stale(self, figure: Figure[Any]) -> Iterator[LinePart]:
        """Why there is nothing newer, where that is not said elsewhere."""
        failed = figure.failed
        if failed is not None and failed.reason != self.told and not isinstance(failed, Silent):
            yield LinePart(f" (since then: {failed.reason})", Role.STALE)

    def _age(self, figure: Figure[Any]) -> LinePart:
        """How old *figure* is; what is too old is called so."""
        if not figure.read_at_ms:
            return NO_AGE
        if not self.interval_ms:
            return LinePart("captured", Role.MUTED)
        age = age_text(figure.age_ms(self.now_ms) / 1_000)
        if figure.stale(self.now_ms, self.interval_ms):
            return LinePart(f"STALE {age}", Role.STALE)
        return LinePart(f"{age} ago", Role.MUTED)

    def _aged(self, asked_at_ms: int) -> LinePart:
        """How long ago the broker was asked that was asked longest ago."""
        asked: Figure[None] = Figure(None, asked_at_ms)
        interval_ms = int(ASK_EVERY_SECONDS * 1_000) if self.interval_ms else 0
        return replace(self, interval_ms=interval_ms)._age(asked)


def _brokers(brokers: Sequence[BrokerHealth], trouble: str) -> Iterator[LinePart]:
    yield LinePart(f"{len(brokers):,}")
    kinds = {
        "not registered": sum(broker.registration is None for broker in brokers),
        "fenced": sum(broker.fenced is True for broker in brokers),
        "silent": sum(broker.voice.silent for broker in brokers),
        "with a log dir offline": sum(_broken(broker) for broker in brokers),
    }
    for words, number in kinds.items():
        if number:
            yield LinePart(", ")
            yield LinePart(f"{number:,} {words}", Role.OFFLINE)
    if trouble:
        yield LinePart(f"; cannot be asked: {trouble}", Role.FAILED)


def _broken(broker: BrokerHealth) -> bool:
    offline = broker.offline_dirs
    return isinstance(offline, int) and offline > 0


def _quorum(figure: Figure[Quorum]) -> Iterator[LinePart]:
    """The quorum; controllers that fell silent come before what they said last."""
    quorum = figure.value
    if isinstance(figure.failed, Silent):
        yield LinePart(f"NO QUORUM: {figure.failed.reason}", Role.BOMB)
        yield LinePart("; before: ")
    if isinstance(quorum, Unknown):
        lost = quorum_lost(quorum)
        yield LinePart(f"NO QUORUM: {lost}", Role.BOMB) if lost else _unknown(quorum)
        return
    if quorum.leader is None:
        yield LinePart("NO LEADER", Role.BOMB)
    else:
        yield LinePart(f"leader {quorum.leader}")
    yield LinePart(f", epoch {quorum.leader_epoch}, log end {count(_log_end(quorum))}")
    for number, voter in enumerate(voter for voter in quorum.voters if voter.id != quorum.leader):
        yield LinePart(", " if number else "; voters ")
        yield _voter(voter)


def _log_end(quorum: Quorum) -> int | Unknown:
    """The leader's; without one the high watermark is all that is known."""
    ends = (voter.log_end_offset for voter in quorum.voters if voter.id == quorum.leader)
    return next(ends, quorum.high_watermark)


def _voter(voter: Voter) -> LinePart:
    if isinstance(voter.lag, Unknown):
        return LinePart(f"{voter.id} ? ({voter.lag.reason})", Role.UNKNOWN)
    behind = f"{voter.id} lag {count(voter.lag)}"
    if isinstance(voter.silent_ms, int) and voter.silent_ms > BEHIND_MS:
        return LinePart(f"{behind}, SILENT {age_text(voter.silent_ms / 1_000)}", Role.OFFLINE)
    return LinePart(behind)


def _moves(moves: Moves | Unknown) -> Iterator[LinePart]:
    if isinstance(moves, Unknown):
        yield _unknown(moves)
        return
    if not moves.moves:
        yield LinePart("nothing")
        return
    number = len(moves.moves)
    topics = [f"{bounded(topic, 40)} {many:,}" for topic, many in moves.by_topic]
    more = f" and {len(topics) - SHOWN_TOPICS:,} more" if len(topics) > SHOWN_TOPICS else ""
    yield LinePart(f"{number:,} partition{'s' * (number != 1)}", Role.RUNNING)
    yield LinePart(f": {', '.join(topics[:SHOWN_TOPICS])}{more}")


def _backup(glance: BackupGlance | Unknown) -> Iterator[LinePart]:
    if isinstance(glance, Unknown):
        yield _unknown(glance)
        return
    yield LinePart(f"{glance.state}, newest {time_text(glance.newest_ms)}")
    if glance.trouble:
        yield LinePart(f"; {glance.trouble}", Role.FAILED)


def _unknown(value: Unknown) -> LinePart:
    return LinePart(f"? {value.reason}", Role.UNKNOWN)


@dataclass(eq=False)
class BrokersAsked(Message):
    """The brokers were asked about themselves, for the overview."""

    trouble: str = ""
    """Why they could not be; empty when they were."""


@dataclass(eq=False)
class BrokerSettingsRead(Message):
    """A broker has reported its settings, or the reason why not."""

    settings: Mapping[str, str | None] | Unknown


@dataclass(eq=False)
class TroubledFound(Message):
    """The partitions in one kind of trouble have been looked up."""

    partitions: Sequence[PartitionState]


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

        Raises BreakglassError: nobody could be asked.
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
        # Whether a count is only a lower bound for want of asking.
        counts = self.context.health.health.counts.value
        wait = (
            last.interval
            if (known(counts) and counts.why_unjudged == NOT_READ)
            else ASK_EVERY_SECONDS
        )
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
