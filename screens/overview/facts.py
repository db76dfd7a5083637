"""What the overview says in sentences: refresh, quorum, reassignments, backups, and how old."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from breakglass.screens.context import Known
from breakglass.screens.overview.broker_rows import ASK_SECONDS
from breakglass.screens.overview.troubles import doubt_of
from breakglass.screens.widgets.facts import NO_AGE, Fact
from breakglass.screens.widgets.status_bar import LinePart, age_text
from breakglass.services.health.backups import BackupGlance
from breakglass.services.health.brokers import BrokerHealth
from breakglass.services.health.figure import Figure
from breakglass.services.health.monitor import Health
from breakglass.services.health.reassignments import Moves
from breakglass.services.model import Quorum, Silent, Unknown, Voter, known
from breakglass.services.recovery.judgement.circumstances import quorum_lost
from breakglass.services.words.figures import count
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role

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
    now_ms: int

    def all(self, health: Health, trouble: str) -> Iterator[Fact]:
        refresh = LinePart(f"every {self.interval_ms / 1_000:g} s (+ -)")
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
            asked = min([one.voice.asked_at_ms for one in health.brokers.value], default=0)
            yield Fact("Brokers", tuple(_brokers(health.brokers.value, trouble)), self._aged(asked))

    def _fact(self, label: str, figure: Figure[Any], parts: Iterator[LinePart]) -> Fact:
        return Fact(label, (*parts, *self._why_stale(figure)), self._age(figure))

    def _why_stale(self, figure: Figure[Any]) -> Iterator[LinePart]:
        """Why there is nothing newer, where that is not said elsewhere."""
        failed = figure.failed
        if failed is not None and failed.reason != self.told and not isinstance(failed, Silent):
            yield LinePart(f" (not since: {failed.reason})", Role.STALE)

    def _age(self, figure: Figure[Any]) -> LinePart:
        """How old *figure* is; what is too old is called so."""
        if not figure.read_at_ms:
            return NO_AGE
        age = age_text(figure.age_ms(self.now_ms) / 1_000)
        if figure.stale(self.now_ms, self.interval_ms):
            return LinePart(f"STALE {age}", Role.STALE)
        return LinePart(f"{age} ago", Role.MUTED)

    def _aged(self, asked_at_ms: int) -> LinePart:
        """How long ago the broker was asked that was asked longest ago."""
        asked: Figure[None] = Figure(None, asked_at_ms)
        return replace(self, interval_ms=int(ASK_SECONDS * 1_000))._age(asked)


def _brokers(brokers: Sequence[BrokerHealth], trouble: str) -> Iterator[LinePart]:
    """How many there are, and how many of them are in which trouble."""
    yield LinePart(f"{len(brokers):,}")
    kinds = {
        "not registered": sum(one.registration is None for one in brokers),
        "fenced": sum(one.fenced is True for one in brokers),
        "silent": sum(one.voice.silent for one in brokers),
        "with a log dir offline": sum(_broken(one) for one in brokers),
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
    """The quorum; controllers that fell silent are told before what they said last."""
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
    for number, voter in enumerate(one for one in quorum.voters if one.id != quorum.leader):
        yield LinePart(", " if number else "; voters ")
        yield _voter(voter)


def _log_end(quorum: Quorum) -> int | Unknown:
    """The leader's; without one the high watermark is all that is known."""
    ends = (one.log_end_offset for one in quorum.voters if one.id == quorum.leader)
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
