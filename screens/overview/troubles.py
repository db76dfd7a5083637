"""The rows that count partitions in trouble: now, at the worst, and the course since the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from breakglass.screens.context import Known
from breakglass.screens.overview.broker_rows import ASK_EVERY_SECONDS
from breakglass.screens.widgets.facts import NO_AGE, Fact
from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.sparkline import sparkline
from breakglass.screens.widgets.status_bar import LinePart, age_text
from breakglass.services.health.backups import BackupGlance
from breakglass.services.health.brokers import BrokerHealth
from breakglass.services.health.counts import Moves, PartitionCounts, Sample, Trouble
from breakglass.services.health.figure import Figure
from breakglass.services.health.monitor import Health
from breakglass.services.model import Silent, Unknown, known
from breakglass.services.recovery.judgement.succession import quorum_lost
from breakglass.services.snapshot import Quorum, Voter
from breakglass.services.words.figures import count
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role

OTHER_COLUMNS = 40
"""What the columns beside the course take."""
NARROWEST = 8


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
    """How many there are, and how many of them are in which trouble."""
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
