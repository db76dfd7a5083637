"""Judges for elections that nobody watches: what a fenced broker would bring is waited for.

A reading ends once every unfenced broker has answered, for an operator reads the verdict and
decides. A program that elects by itself has nobody who would start the broker of `WAIT start b3`,
but the broker may be seconds away: such partitions are left until the recovery duration of
KIP-1275 has passed, and judged again whenever another broker is unfenced or fenced.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.recovery.judgement.assessment import Assessment, Verb, Verdict
from breakglass.services.recovery.triage import Triage
from breakglass.services.snapshot import ClusterSnapshot

Judging = Callable[[ClusterSnapshot, Sequence[PartitionState], float], Iterator[Triage]]
"""Judges partitions of a snapshot, whose brokers have so many seconds to answer."""


@dataclass(frozen=True, slots=True)
class PatientLook:
    """The partitions that are still without leader, judged, and those that are left for now."""

    found: Triage
    waiting: frozenset[TopicPartition] = frozenset()
    """Partitions that are not to be elected yet."""
    led: tuple[PartitionState, ...] = ()
    """Partitions that were waited for and have a leader since the look before."""
    brokers: Mapping[int, int] = field(default_factory=dict)
    """How many partitions wait for each broker; at the last look, have waited in vain."""


def judge_patiently(
    judging: Judging,
    client: ReadClient,
    snapshot: ClusterSnapshot,
    partitions: Sequence[PartitionState],
    seconds: float,
    *,
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[PatientLook]:
    """Judge *partitions* of *snapshot* for *seconds*, or until none waits for a broker.

    Yields what *judging* yields. The last look waits for nobody, and was read after the time was
    up; where all that waited came back, it has no partition.
    """
    deadline = Deadline.after(seconds, clock)
    led: tuple[PartitionState, ...] = ()
    over = False
    waited: dict[int, int] = {}
    while True:
        # Those that answered before answer at once; nobody else is waited for after the duration.
        limit = patience.ONE_BROKER if over else deadline.remaining()
        look: PatientLook | None = None
        for found in judging(snapshot, partitions, limit):
            waiting = (
                frozenset()
                if over
                else frozenset(one.partition for one in found.assessments if _waits(one))
            )
            look = PatientLook(found, waiting, led, waited if over else _awaited(found))
            led = ()
            yield look
        if look is None or not look.waiting or stop():
            return
        waited = _awaited(look.found)
        if deadline.passed:
            yield replace(look, waiting=frozenset(), led=())
            return
        fresh = _news(client, look, deadline, stop, pause)
        if stop():
            return
        over = fresh is None
        snapshot = fresh or client.snapshot(
            Deadline.after(patience.SNAPSHOT), _topics(look.waiting)
        )
        states = [state for state in snapshot.partitions if state.partition in look.waiting]
        led = tuple(state for state in states if not state.offline)
        partitions = [state for state in states if state.offline]


def _news(
    client: ReadClient,
    look: PatientLook,
    deadline: Deadline,
    stop: Callable[[], bool],
    pause: Callable[[float], None],
) -> ClusterSnapshot | None:
    """The cluster once another broker is unfenced or fenced; None: time is up, or it is to stop."""
    before = look.found.snapshot.live
    # The controller elects such a broker by itself, and that changes no broker's fencing.
    soon = any(one.action.verb is Verb.AWAIT for one in look.found.assessments if _waits(one))
    while not deadline.passed and not stop():
        pause(min(patience.RECHECK, deadline.remaining()))
        try:
            if soon or client.describe(Deadline.after(patience.RECHECK)).live != before:
                return client.snapshot(Deadline.after(patience.SNAPSHOT), _topics(look.waiting))
        except BreakglassError:
            # Nobody answers just now: what was seen last stands.
            continue
    return None


def _waits(one: Assessment) -> bool:
    return one.verdict is Verdict.WAIT


def _awaited(found: Triage) -> dict[int, int]:
    """How many partitions wait for each broker."""
    counts: dict[int, int] = {}
    for one in found.assessments:
        if _waits(one):
            for broker in (*one.restorers, *one.unheard):
                counts[broker] = counts.get(broker, 0) + 1
    return dict(sorted(counts.items()))


def _topics(partitions: frozenset[TopicPartition]) -> list[str]:
    return sorted({partition.topic for partition in partitions})
