"""What happens to offline partitions by itself, and what each broker would bring back. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from breakglass.services.incident.groups import PartitionGroup, group_of
from breakglass.services.incident.listing import ordered
from breakglass.services.incident.row import IncidentRow
from breakglass.services.recovery.judgement.assessment import Verb, Verdict


@dataclass(frozen=True, slots=True)
class Outlook:
    """Partitions with the same fate if nobody intervenes."""

    successor: int | None
    """The broker that the controller elects; None: the partitions stay offline."""
    harmful: bool
    """The election destroys records that others have (R2)."""
    whole: bool
    """The successor lacks nothing that was read."""
    rows: tuple[IncidentRow, ...]

    @property
    def topics(self) -> tuple[PartitionGroup, ...]:
        """The partitions by topic, each as one group."""
        by_topic: dict[str, list[IncidentRow]] = {}
        for row in self.rows:
            by_topic.setdefault(row.partition.topic, []).append(row)
        return tuple([group_of(rows) for rows in by_topic.values()])


@dataclass(frozen=True, slots=True)
class Restorer:
    """A broker that would bring partitions back whole, if its disk has all that it had."""

    broker: int
    partitions: int
    runs: bool
    """The broker runs but is cut off from the controllers: reconnect it."""
    first: Verb | None = None
    """What is done before it starts, where an election passed it over, or may have (R27, R46)."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The fate of some partitions."""

    outlooks: tuple[Outlook, ...]
    """First those with harm, then those that come back, then those that stay offline."""
    restores: tuple[Restorer, ...]
    """The broker that brings back most first."""
    unread: int
    """Partitions that have not been judged."""


def forecast_of(rows: Sequence[IncidentRow]) -> Forecast:
    """The fate of *rows* if nobody intervenes, and the brokers that would bring them back.

    They are sorted by partition.
    """
    by_outcome: dict[tuple[bool, bool, int | None], list[IncidentRow]] = {}
    for row in ordered(rows):
        conclusion = row.judged
        if conclusion is not None:
            harmful, whole = conclusion.verdict is _BOMB, conclusion.action.verb is _AWAIT
            by_outcome.setdefault((harmful, whole, conclusion.successor), []).append(row)
    outlooks = [
        Outlook(successor, harmful, whole, tuple(together))
        for (harmful, whole, successor), together in by_outcome.items()
    ]
    outlooks.sort(
        key=lambda outlook: (not outlook.harmful, outlook.successor is None, -len(outlook.rows))
    )
    judged = sum(len(outlook.rows) for outlook in outlooks)
    return Forecast(tuple(outlooks), _restores(rows), len(rows) - judged)


_BOMB, _AWAIT = Verdict.BOMB, Verb.AWAIT
"""Looked up once: Python 3.11 makes a call of that."""


def _restores(rows: Iterable[IncidentRow]) -> tuple[Restorer, ...]:
    """Brokers that have to be started or reconnected; successors are not among them."""
    alike: Counter[tuple[Verb, tuple[int, ...]]] = Counter(
        [
            (row.judged.action.verb, row.judged.restorers)
            for row in rows
            if row.judged is not None and row.judged.restorers
        ]
    )
    gain: Counter[int] = Counter()
    absent: set[int] = set()
    first: dict[int, Verb] = {}
    for (verb, restorers), partitions in alike.items():
        if verb not in (Verb.START, Verb.COPY, Verb.CHECK, Verb.RECONNECT):
            continue
        for broker in restorers:
            gain[broker] += partitions
        if verb is not Verb.RECONNECT:
            absent.update(restorers)
        if verb in (Verb.COPY, Verb.CHECK):
            first |= dict.fromkeys(restorers, verb)
    most_first = sorted(gain.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        [
            Restorer(broker, number, broker not in absent, first.get(broker))
            for broker, number in most_first
        ]
    )
