"""The overview: the cluster at a glance, each broker, and the course of what is in trouble.

It reads only. Brokers are asked about themselves over connections that are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.console import RenderableType
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from breakglass.screens.context import Context, Known
from breakglass.screens.messages import IntervalChanged, OfflineAsked
from breakglass.screens.page import Page
from breakglass.screens.refreshing import found_or_why, in_thread, in_words
from breakglass.screens.widgets.dialog import Overlay
from breakglass.screens.widgets.facts import NO_AGE, Fact, Facts, fact, facts_table
from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.screens.widgets.status_bar import age_text
from breakglass.services import patience
from breakglass.services.health.counts import LANE, NOT_READ, BrokerHealth, Moves, Sample, Trouble
from breakglass.services.health.figure import BackupGlance, Figure
from breakglass.services.health.monitor import Health
from breakglass.services.kafka.cluster.log_dirs import BrokerLogDir
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, Silent, Unknown, known
from breakglass.services.recovery.judgement.succession import (
    RESTORE_QUORUM,
    quorum_lost,
    without_quorum,
)
from breakglass.services.recovery.timeline.account import partition_numbers
from breakglass.services.snapshot import Broker, Quorum, Voter
from breakglass.services.words.figures import count, shown
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, Words, role_style

if TYPE_CHECKING:
    from breakglass.services.kafka.read_client import ReadClient


ASK_EVERY_SECONDS = 10.0
"""How often brokers are asked about themselves; their answers are stale three times later."""


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker and the moment it is shown."""

    health: BrokerHealth
    now_ms: int

    @property
    def state(self) -> Words:
        """In words, what is wrong first."""
        words, role, _ = _state(self.health)
        voice = self.health.voice
        age = (self.now_ms - voice.asked_at_ms) / 1_000
        if voice.asked_at_ms and age > 3 * ASK_EVERY_SECONDS:
            return Words(f"{words} (STALE {age_text(age)})", role or Role.STALE)
        return Words(words, role)

    @property
    def dirs(self) -> Words:
        figure = self.health.voice.log_dirs
        offline = self.health.offline_dirs
        if isinstance(offline, Unknown) or isinstance(figure.value, Unknown):
            return Words("?", Role.UNKNOWN)
        if offline:
            return Words(f"{offline} of {len(figure.value)} off", Role.OFFLINE)
        return Words(str(len(figure.value)), Role.STALE if figure.failed else None)

    @property
    def behind(self) -> Words:
        held = self.health.held
        number = held.replicas - held.in_sync
        return Words(count(number), Role.WAITING if number else None)

    @property
    def address(self) -> str:
        registration = self.health.registration
        return f"{registration.host}:{registration.port}" if registration else "-"

    @property
    def rack(self) -> str:
        registration = self.health.registration
        return (registration.rack if registration else None) or "-"


def broker_rows(health: Health, now_ms: int) -> Sequence[BrokerRow]:
    """A row for each broker, those in trouble first."""
    brokers = health.brokers.value
    if isinstance(brokers, Unknown):
        return ()
    ordered = sorted(brokers, key=lambda broker: (broker.sound, broker.id))
    return [BrokerRow(broker, now_ms) for broker in ordered]


BROKER_COLUMNS: tuple[LineColumn[BrokerRow], ...] = (
    LineColumn("Broker", lambda row: f"b{row.health.id}"),
    LineColumn("State", lambda row: row.state, shrinks=True, most=44),
    LineColumn("Log dirs", lambda row: row.dirs),
    LineColumn("Rack", lambda row: row.rack, least_width=66, most=16),
    LineColumn("Leads", lambda row: count(row.health.held.leads), right=True),
    LineColumn("Replicas", lambda row: count(row.health.held.replicas), right=True, least_width=76),
    LineColumn("Behind", lambda row: row.behind, right=True),
    LineColumn("Address", lambda row: row.address, least_width=100, shrinks=True),
)
"""A narrow terminal gets those that say what is wrong."""


def _state(broker: BrokerHealth) -> Words:
    voice = broker.voice
    if broker.registration is None:
        return Words("NOT REGISTERED", Role.STUCK)
    if broker.fenced is True:
        unasked = isinstance(voice.why_silent, Unknown)
        heard = "" if unasked else f", {voice.why_silent or 'answers'}"
        return Words(f"FENCED{heard}", Role.OFFLINE)
    if voice.silent:
        return Words(f"SILENT: {voice.why_silent}", Role.OFFLINE)
    if isinstance(voice.why_silent, Unknown):
        return Words("not asked yet", Role.UNKNOWN)
    return Words("ok") if broker.sound else Words("LOG DIR OFFLINE", Role.OFFLINE)


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


def trouble_columns(health: Health, now_ms: int) -> tuple[LineColumn[TroubleRow], ...]:
    """The columns; the title of the last says since when."""
    counts, since = health.counts.value, health.history.since_ms
    what = f"Of {counts.partitions:,} partitions" if known(counts) else "Partitions"
    course = "Course"
    if since is not None:
        began = datetime.fromtimestamp(since / 1000, UTC)
        course = f"Since {began:%H:%M}Z ({age_text((now_ms - since) / 1000)})"
    now = "Last" if health.counts.failed else "Now"
    return (
        LineColumn(what, lambda row: row.trouble),
        LineColumn(now, lambda row: Words(row.now, row.role), right=True),
        LineColumn("Peak", lambda row: row.peak, right=True),
        LineColumn(course, lambda row: Words(row.course, row.role), most=400),
    )


TROUBLES: dict[Trouble, tuple[Role, Callable[[Sample], int]]] = {
    Trouble.OFFLINE: (Role.OFFLINE, lambda sample: sample.offline),
    Trouble.UNDER_MIN_ISR: (Role.LOST, lambda sample: sample.under_min_isr),
    Trouble.UNDER_REPLICATED: (Role.WAITING, lambda sample: sample.under_replicated),
}


def sparkline(values: Sequence[int | None]) -> str:
    """One block for each of *values*, the highest as high as can be; None leaves a gap."""
    highest, top = max((value for value in values if value is not None), default=0), len(LEVELS) - 1

    def level(value: int) -> str:
        return LEVELS[max(1, -(-value * top // highest)) if value > 0 else 0]

    return "".join(" " if value is None else level(value) for value in values)


def trouble_rows(health: Health, now_ms: int, width: int) -> Iterator[TroubleRow]:
    """A row for each kind of trouble, for a table of *width* characters."""
    counts, history = health.counts.value, health.history
    for trouble, (role, of) in TROUBLES.items():
        if not known(counts):
            yield TroubleRow(trouble, "?", Role.UNKNOWN, "?", "")
            continue
        number = counts.number(trouble)
        least = ">=" if trouble is Trouble.UNDER_MIN_ISR and counts.unjudged else ""
        shown = role if number else Role.UNKNOWN if least else None
        line = sparkline(history.line(of, max(width - OTHER_COLUMNS, NARROWEST), now_ms))
        now, peak = f"{least}{count(number)}", count(history.peak(of))
        yield TroubleRow(trouble, now, shown, peak, line)


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
        refresh = Words(every if self.interval_ms else "never: this is a bundle")
        yield fact("Refresh", refresh, age=self._age(health.counts))
        yield self._fact("Quorum", health.quorum, _quorum(health.quorum))
        yield self._fact("Reassigning", health.reassignments, _moves(health.reassignments.value))
        for name, glance in health.backups.items():
            label = name[:1].upper() + name[1:10]
            yield self._fact(label, glance, _backup(glance.value))
        counts = health.counts.value
        if known(counts) and counts.unjudged:
            # The number under min ISR may be higher.
            more = f"{counts.unjudged:,} more are possible: {counts.why_unjudged}"
            yield fact("Unknown", Words(f"under min ISR: {more}", Role.UNKNOWN))
        if known(health.brokers.value):
            # How long ago the broker was asked that was asked longest ago.
            asked = min([broker.voice.asked_at_ms for broker in health.brokers.value], default=0)
            interval_ms = int(ASK_EVERY_SECONDS * 1_000) if self.interval_ms else 0
            age = replace(self, interval_ms=interval_ms)._age(Figure(None, asked))
            yield fact("Brokers", *_brokers(health.brokers.value, trouble), age=age)

    def _fact(self, label: str, figure: Figure[Any], parts: Iterator[Words]) -> Fact:
        failed, told = figure.failed, list(parts)
        # Why there is nothing newer, where that is not said elsewhere.
        if failed is not None and failed.reason != self.told and not isinstance(failed, Silent):
            told.append(Words(f" (since then: {failed.reason})", Role.STALE))
        return fact(label, *told, age=self._age(figure))

    def _age(self, figure: Figure[Any]) -> Words:
        """How old *figure* is; what is too old is called so."""
        if not figure.read_at_ms:
            return NO_AGE
        if not self.interval_ms:
            return Words("captured", Role.MUTED)
        age = age_text(figure.age_ms(self.now_ms) / 1_000)
        if figure.stale(self.now_ms, self.interval_ms):
            return Words(f"STALE {age}", Role.STALE)
        return Words(f"{age} ago", Role.MUTED)


def _brokers(brokers: Sequence[BrokerHealth], trouble: str) -> Iterator[Words]:
    yield Words(f"{len(brokers):,}")
    kinds = {
        "not registered": sum(broker.registration is None for broker in brokers),
        "fenced": sum(broker.fenced is True for broker in brokers),
        "silent": sum(broker.voice.silent for broker in brokers),
        "with a log dir offline": sum(
            isinstance(broker.offline_dirs, int) and broker.offline_dirs > 0 for broker in brokers
        ),
    }
    for words, number in kinds.items():
        if number:
            yield Words(", ")
            yield Words(f"{number:,} {words}", Role.OFFLINE)
    if trouble:
        yield Words(f"; cannot be asked: {trouble}", Role.FAILED)


def _quorum(figure: Figure[Quorum]) -> Iterator[Words]:
    """The quorum; controllers that fell silent come before what they said last."""
    quorum = figure.value
    if isinstance(figure.failed, Silent):
        yield Words(f"NO QUORUM: {figure.failed.reason}", Role.BOMB)
        yield Words("; before: ")
    if isinstance(quorum, Unknown):
        lost = quorum_lost(quorum)
        yield Words(f"NO QUORUM: {without_quorum(lost)}", Role.BOMB) if lost else _unknown(quorum)
        return
    if quorum.leader is None:
        yield Words("NO LEADER", Role.BOMB)
    else:
        yield Words(f"leader {quorum.leader}")
    # The leader's; without one the high watermark is all that is known.
    ends = (voter.log_end_offset for voter in quorum.voters if voter.id == quorum.leader)
    log_end = next(ends, quorum.high_watermark)
    yield Words(f", epoch {quorum.leader_epoch}, log end {count(log_end)}")
    for number, voter in enumerate(voter for voter in quorum.voters if voter.id != quorum.leader):
        yield Words(", " if number else "; voters ")
        yield _voter(voter)
    if isinstance(figure.failed, Silent) or quorum.leader is None:
        yield Words(f"; {RESTORE_QUORUM}", Role.BOMB)


def _voter(voter: Voter) -> Words:
    if isinstance(voter.lag, Unknown):
        return Words(f"{voter.id} ? ({voter.lag.reason})", Role.UNKNOWN)
    behind = f"{voter.id} lag {count(voter.lag)}"
    if isinstance(voter.silent_ms, int) and voter.silent_ms > BEHIND_MS:
        return Words(f"{behind}, SILENT {age_text(voter.silent_ms / 1_000)}", Role.OFFLINE)
    return Words(behind)


def _moves(moves: Moves | Unknown) -> Iterator[Words]:
    if isinstance(moves, Unknown):
        yield _unknown(moves)
        return
    if not moves.moves:
        yield Words("nothing")
        return
    number = len(moves.moves)
    topics = [f"{bounded(topic, 40)} {many:,}" for topic, many in moves.by_topic]
    more = f" and {len(topics) - SHOWN_TOPICS:,} more" if len(topics) > SHOWN_TOPICS else ""
    yield Words(f"{number:,} partition{'s' * (number != 1)}", Role.RUNNING)
    yield Words(f": {', '.join(topics[:SHOWN_TOPICS])}{more}")


def _backup(glance: BackupGlance | Unknown) -> Iterator[Words]:
    if isinstance(glance, Unknown):
        yield _unknown(glance)
        return
    yield Words(f"{glance.state}, newest {time_text(glance.newest_ms)}")
    if glance.trouble:
        yield Words(f"; {glance.trouble}", Role.FAILED)


def _unknown(value: Unknown) -> Words:
    return Words(f"? {value.reason}", Role.UNKNOWN)


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
        in_thread(self, "broker", self._read, self._settings_read)

    def action_offline(self) -> None:
        self.app.post_message(OfflineAsked(f"broker:{self._row.health.id}"))
        self.dismiss()

    def _settings_read(self, settings: Mapping[str, str | None] | Unknown) -> None:
        self._settings = settings
        self.show_again()

    def _read(self) -> Mapping[str, str | None] | Unknown:
        """In a thread: ask the broker for its settings."""
        from breakglass.services.kafka.cluster.settings import read_broker_settings

        bundle, broker = self.context.bundle, self._row.health.id
        if bundle is not None:
            return bundle.broker_settings(broker, SETTINGS)
        deadline = Deadline.after(patience.BRIEF)

        def read() -> Mapping[str, str | None] | Unknown:
            with self.context.reading() as client:
                client.describe(deadline)
                return read_broker_settings(client.sender, broker, SETTINGS, deadline, LANE)

        return found_or_why(read, "its answer cannot be read")

    def content(self) -> RenderableType:
        table = facts_table(self.app, self._facts(), LENGTH)
        keys = Text("Esc closes, o shows its offline partitions", role_style(self.app, Role.MUTED))
        table.add_row("", keys)
        return table

    def _facts(self) -> Iterator[Fact]:
        broker, held = self._row.health, self._row.health.held
        yield fact(f"Broker {broker.id}", self._row.state)
        if broker.registration is not None:
            yield fact("Address", self._row.address)
            yield fact("Rack", self._row.rack)
            yield fact("Fenced", _fenced(broker.registration.fenced))
        in_sync = f"{count(held.in_sync)} in sync, leads {count(held.leads)}"
        yield fact("Replicas", f"{count(held.replicas)}, {in_sync}")
        yield from self._log_dirs()
        if isinstance(self._settings, Unknown):
            yield fact("Settings", _unknown(self._settings))
        else:
            for key, value in self._settings.items():
                yield fact(key, shown(value))

    def _log_dirs(self) -> Iterator[Fact]:
        figure = self._row.health.voice.log_dirs
        if isinstance(figure.value, Unknown):
            yield fact("Log dirs", _unknown(figure.value))
            return
        for number, log_dir in enumerate(figure.value):
            yield fact("" if number else "Log dirs", _log_dir(log_dir))
        age = age_text(figure.age_ms(self._row.now_ms) / 1_000)
        if figure.failed is not None:
            yield fact("", Words(f"STALE {age}: {figure.failed.reason}", Role.STALE))
        else:
            yield fact("", Words(f"read {age} ago", Role.MUTED))


def _fenced(fenced: bool | Unknown) -> Words:
    if isinstance(fenced, Unknown):
        return _unknown(fenced)
    if fenced:
        return Words("yes: it leads nothing until it is unfenced", Role.OFFLINE)
    return Words("no")


def _log_dir(log_dir: BrokerLogDir) -> Words:
    if not log_dir.online:
        return Words(f"{log_dir.path} OFFLINE: {log_dir.why_offline}", Role.OFFLINE)
    usable, whole = log_dir.usable_bytes, log_dir.total_bytes
    # One number without the other says nothing.
    if isinstance(usable, Unknown) or isinstance(whole, Unknown):
        return Words(f"{log_dir.path}, free space ?")
    return Words(f"{log_dir.path}, {_size(usable)} of {_size(whole)} free")


def _size(number: int) -> str:
    return f"{number / GIGA:,.1f} GiB" if number >= GIGA else f"{number / MEGA:,.1f} MiB"


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
        # In a thread: 100,000 partitions take a moment.
        in_thread(
            self, "troubled", lambda: self.context.health.partitions_in(self._trouble), self._found
        )

    def _found(self, partitions: Sequence[PartitionState]) -> None:
        table: LineTable[TopicRow] = self.query_one(LineTable)
        seen = self.context.last_seen
        table.set_empty(f"None at {seen}." if seen else "None.")
        table.set_rows(list(topic_rows(partitions)))


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
    LineColumn("Topic", lambda row: row.topic, shrinks=True),
    LineColumn("In sync", lambda row: f"{row.in_sync} of {row.replicas}", right=True),
    LineColumn("Count", lambda row: count(len(row.partitions)), right=True),
    LineColumn("Partitions", lambda row: partition_numbers(row.partitions), most=200),
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
        Binding("c", "app.show('quorum')", "Controllers", tooltip="Which controllers answer"),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._stack = ExitStack()
        """Of the client; the session's end closes what it opened (`Context.close`)."""
        self._client: ReadClient | None = None
        self._reached: tuple[Broker, ...] = ()
        """Whose addresses the client knows."""
        self._asked_at: float | None = None
        self._ask_runs = False
        self._trouble = ""
        """Why brokers could not be asked."""

    def body(self) -> Iterator[Widget]:
        yield LineTable[TroubleRow]((), lambda row: row.trouble, id="troubles", lone=False)
        yield Facts()
        yield LineTable[BrokerRow](
            BROKER_COLUMNS, lambda row: row.health.id, id="brokers", lone=False,
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

    def _asked(self, trouble: str) -> None:
        self._ask_runs, self._trouble = False, trouble
        self._show()

    def _show(self) -> None:
        health, now_ms = self.context.health.health, self.context.health.now_ms()
        troubles = self.query_one("#troubles", LineTable)
        troubles.set_columns(trouble_columns(health, now_ms))
        troubles.set_rows(list(trouble_rows(health, now_ms, self.size.width)))
        self.query_one(Facts).facts = facts_of(health, self.context.known, self._trouble, now_ms)
        self.query_one("#brokers", LineTable).set_rows(broker_rows(health, now_ms))

    def _ask(self) -> None:
        """Ask the brokers about themselves, if it is time and nothing forbids it."""
        now, last = self.context.clock(), self.context.known
        brokers = self.context.health.brokers
        counts, wait = self.context.health.health.counts.value, ASK_EVERY_SECONDS
        if known(counts) and counts.why_unjudged == NOT_READ:
            # A count is only a lower bound for want of asking.
            wait = min(last.interval, wait)
        due = self._asked_at is None or now - self._asked_at >= wait
        idle = self._ask_runs or last.paused or self.context.bundle is not None
        if idle or not due or not brokers:
            return
        self._ask_runs, self._asked_at = True, now
        in_thread(self, "brokers", partial(self._ask_brokers, brokers), self._asked)

    def _ask_brokers(self, brokers: tuple[Broker, ...]) -> str:
        """In one thread at a time: refresh the health from *brokers*; why nobody could be asked."""
        try:
            if self._client is None:
                self._client = self._stack.enter_context(self.context.reading())
            if brokers != self._reached:
                self._client.describe(Deadline.after(patience.LOOK))
                self._reached = brokers
            self.context.health.ask(self._client)
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            return in_words(error, "their answers cannot be read")
        return ""
