"""What happens to offline partitions by itself, and what each broker would bring back. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from breakglass.services.incident.groups import PartitionGroup, group_of
from breakglass.services.incident.order import ordered
from breakglass.services.incident.row import IncidentRow
from breakglass.services.recovery.judgement.assessment import Verb, Verdict


@dataclass(frozen=True, slots=True)
class Outlook:
    """Partitions of which the same becomes if nobody intervenes."""

    successor: int | None
    """Whom the controller elects; None: nobody, they stay offline."""
    harmful: bool
    """That destroys what others hold (R2)."""
    whole: bool
    """That brings everything back."""
    rows: tuple[IncidentRow, ...]

    @property
    def topics(self) -> tuple[PartitionGroup, ...]:
        """The partitions by topic, each as one group."""
        held: dict[str, list[IncidentRow]] = {}
        for row in self.rows:
            held.setdefault(row.partition.topic, []).append(row)
        return tuple([group_of(rows) for rows in held.values()])


@dataclass(frozen=True, slots=True)
class Restorer:
    """A broker that would bring partitions back whole."""

    broker: int
    partitions: int
    runs: bool
    """It is up and only cut off from the controllers: to be reconnected, not started."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What becomes of some partitions."""

    outlooks: tuple[Outlook, ...]
    """Harm first, then what comes back, then what stays offline."""
    restores: tuple[Restorer, ...]
    """The broker that brings back most first."""
    unread: int
    """Partitions that have not been judged."""


def forecast_of(rows: Sequence[IncidentRow]) -> Forecast:
    """What becomes of *rows* if nobody intervenes, and by whom they would come back.

    They are sorted by partition.
    """
    held: dict[tuple[bool, bool, int | None], list[IncidentRow]] = {}
    for row in ordered(rows):
        if row.judged is not None:
            held.setdefault(_outcome(row), []).append(row)
    outlooks = [
        Outlook(successor, harmful, whole, tuple(together))
        for (harmful, whole, successor), together in held.items()
    ]
    outlooks.sort(key=lambda one: (not one.harmful, one.successor is None, -len(one.rows)))
    judged = sum(len(one.rows) for one in outlooks)
    return Forecast(tuple(outlooks), _restores(rows), len(rows) - judged)


def _outcome(row: IncidentRow) -> tuple[bool, bool, int | None]:
    judged = row.judged
    assert judged is not None
    whole = judged.action.verb is Verb.AWAIT
    return judged.verdict is Verdict.BOMB, whole, judged.successor


def _restores(rows: Iterable[IncidentRow]) -> tuple[Restorer, ...]:
    """Those that somebody has to start or reconnect; who is elected by itself is none."""
    gain: Counter[int] = Counter()
    absent: set[int] = set()
    for row in rows:
        if row.action is None or row.action.verb not in (Verb.START, Verb.RECONNECT):
            continue
        gain.update(row.restorers)
        if row.action.verb is Verb.START:
            absent.update(row.restorers)
    most_first = sorted(gain.items(), key=lambda item: (-item[1], item[0]))
    return tuple([Restorer(broker, number, broker not in absent) for broker, number in most_first])
