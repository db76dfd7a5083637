"""Watches elected partitions climb: elected, serving, readable, writable, redundant (R7)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.confirm import Observer, States
from breakglass.services.recovery.execution.ladder import seen_in
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult, Rung

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0
"""Seconds between two looks; the pause doubles while nothing moves."""
STOP_LOOK_SECONDS = 0.05


def watch_ladder(
    client: ReadClient,
    outcomes: Sequence[PartitionOutcome],
    stop: Callable[[], bool],
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[tuple[PartitionOutcome, ...]]:
    """Look at the elected partitions of *outcomes* until each is at its top, or *stop*.

    Yields what moved since the last look, if anything did. One without leader again is
    yielded last without a rung, with the reason. Each look is bounded; a broker that does not
    answer leaves its partitions where they were.
    """
    observer = Observer(client)
    watched = {outcome.partition: outcome for outcome in outcomes if _climbs(outcome)}
    wait = FIRST_PAUSE_SECONDS
    while watched and not stop():
        moved = _moved(observer, watched)
        for outcome in moved:
            watched[outcome.partition] = outcome
        watched = {name: outcome for name, outcome in watched.items() if _climbs(outcome)}
        if moved:
            yield moved
        wait = FIRST_PAUSE_SECONDS if moved else min(wait * 2, LONGEST_PAUSE_SECONDS)
        if watched:
            _rest(wait, stop, pause)


def _climbs(outcome: PartitionOutcome) -> bool:
    """Whether there is a higher rung: a partition of one replica never becomes redundant."""
    if outcome.result is not RecoveryResult.ELECTED or outcome.rung is None:
        return False
    top = Rung.REDUNDANT if len(outcome.target.assignment) > 1 else Rung.WRITABLE
    return outcome.rung < top


def _moved(
    observer: Observer, watched: Mapping[TopicPartition, PartitionOutcome]
) -> tuple[PartitionOutcome, ...]:
    try:
        targets = [outcome.target for outcome in watched.values()]
        deadline = Deadline.after(patience.LOOK)
        # A leader may have come back elsewhere, and a new client knows no address yet.
        observer.client.describe(deadline)
        states = observer.states(targets, deadline)
    except BreakglassError:
        return ()
    current = [outcome for outcome in watched.values() if _seen_after(outcome, states)]
    led = [
        outcome
        for outcome in current
        if states[outcome.partition].leader == outcome.target.designee
    ]
    now = [_lost(outcome, states) for outcome in current if outcome not in led]
    if led:
        now += seen_in(observer, led, states, Deadline.after(patience.LOOK)).values()
    return tuple(outcome for outcome in now if outcome != watched[outcome.partition])


def _seen_after(outcome: PartitionOutcome, states: States) -> bool:
    """Whether *states* are of its election or later: a broker's metadata may lag behind."""
    state = states.get(outcome.partition)
    return state is not None and state.leader_epoch >= (outcome.leader_epoch or 0)


def _lost(outcome: PartitionOutcome, states: States) -> PartitionOutcome:
    leader = states[outcome.partition].leader
    now = "it has no leader again" if leader is None else f"b{leader} leads it by now"
    reason = f"b{outcome.target.designee} was elected, and {now}: read it again"
    return replace(outcome, rung=None, reason=reason, leader=leader)


def _rest(seconds: float, stop: Callable[[], bool], pause: Callable[[float], None]) -> None:
    for _ in range(math.ceil(seconds / STOP_LOOK_SECONDS)):
        if stop():
            return
        pause(STOP_LOOK_SECONDS)
