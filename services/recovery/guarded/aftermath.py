"""What elections leave to clean up: open transactions (R18) and groups past the end (R19)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.cluster.open_transactions import (
    OpenTransaction,
    read_open_transactions,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionEvidence, TopicPartition, Unknown
from breakglass.services.recovery.execution.confirm import Observer, States, seen_in
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    Rung,
)
from breakglass.services.recovery.guarded.subject import Priced
from breakglass.services.recovery.judgement.succession import SAFE_WHEN, do_not_start
from breakglass.services.words.figures import partitions_text


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A broker that was unread when elections were agreed to, and may hold records of its own."""

    broker: int
    partitions: tuple[TopicPartition, ...]
    """Partitions that are led without the broker, in the order of recovery."""
    at_least: bool = False
    """Another client elected the leaders of more partitions: whether they have the log is open."""

    @property
    def advice(self) -> str:
        """What not to do with the broker, what to do first, and what says when it is safe."""
        least = "at least " if self.at_least else ""
        cut = f"({least}{partitions_text(len(self.partitions))} would be cut)"
        return f"{do_not_start(self.broker)} {cut}; {SAFE_WHEN} says when it is safe"


def given_up(
    outcomes: Iterable[PartitionOutcome], abandons: Mapping[TopicPartition, Iterable[int]]
) -> tuple[GivenUp, ...]:
    """A value for each broker of *abandons* whose log a leader of *outcomes* would cut now.

    *abandons* has the brokers that were unread when the elections were agreed to.
    """
    abandoned: dict[int, list[TopicPartition]] = {}
    elsewhere: set[int] = set()
    for outcome in outcomes:
        others = [one for one in abandons.get(outcome.partition, ()) if one != outcome.leader]
        if _leads(outcome):
            for broker in others:
                abandoned.setdefault(broker, []).append(outcome.partition)
        elif outcome.result is RecoveryResult.ALREADY_ONLINE:
            elsewhere.update(others)
    return tuple(
        GivenUp(broker, tuple(abandoned[broker]), broker in elsewhere)
        for broker in sorted(abandoned)
    )


def _leads(outcome: PartitionOutcome) -> bool:
    """Whether a leader that was elected without the unread logs leads now, or may lead."""
    if outcome.result is RecoveryResult.ALREADY_ONLINE:
        return outcome.leader == outcome.target.designee
    return outcome.result in (
        RecoveryResult.ELECTED,
        RecoveryResult.ELECTED_ANOTHER,
        RecoveryResult.UNKNOWN,
    )


FINISH = "`breakglass after transactions finish --source log:DIR`"
"""Ends what hangs, by the log folder of the leader that was lost."""


@dataclass(frozen=True, slots=True)
class GroupPastEnd:
    """A consumer group that committed past the end of a recovered partition (R19)."""

    partition: TopicPartition
    group: str
    committed: int
    log_end: int


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What the operator still has to put right where leaders were elected."""

    open_transactions: tuple[OpenTransaction, ...] | Unknown
    """Open transactions: read_committed consumers stop at them."""
    groups_past_end: tuple[GroupPastEnd, ...]
    """Groups that will get OFFSET_OUT_OF_RANGE."""
    given_up: tuple[GivenUp, ...] = ()
    """Brokers whose unread logs would be cut, were they started."""
    groups_unread: tuple[str, ...] = ()
    """Which groups *groups_past_end* may lack, each with the reason (R33)."""


def look_after(
    client: ReadClient, outcomes: Sequence[PartitionOutcome], wanted: Sequence[Priced]
) -> Aftermath:
    """What the elections of *outcomes* left to clean up; *wanted* is what was agreed to.

    Never raises for a broker: what a broker does not answer is Unknown.
    """
    evidence = {quoted.partition: quoted.evidence for quoted in wanted}
    elected = [outcome.target for outcome in outcomes if outcome.result is RecoveryResult.ELECTED]
    known = [target for target in elected if target.partition in evidence]
    return Aftermath(
        open_transactions_after(client, outcomes),
        past_end(known, evidence),
        given_up(outcomes, {quoted.partition: quoted.stake.abandons for quoted in wanted}),
        groups_unread(known, evidence),
    )


def past_end(
    targets: Iterable[ElectionTarget], evidence: Mapping[TopicPartition, PartitionEvidence]
) -> tuple[GroupPastEnd, ...]:
    """Groups that the elections of *targets* leave with a committed offset past the end."""
    return tuple(
        GroupPastEnd(target.partition, group, offset, target.log_end)
        for target in targets
        if target.log_end is not None
        for group, offset in sorted(_groups(evidence[target.partition].group_offsets).items())
        if offset > target.log_end
    )


def groups_unread(
    targets: Iterable[ElectionTarget], evidence: Mapping[TopicPartition, PartitionEvidence]
) -> tuple[str, ...]:
    """Which groups `past_end` may lack, each with the reason."""
    reasons: dict[str, None] = {}
    for target in targets:
        read = evidence[target.partition]
        reasons |= dict.fromkeys(read.groups_unread)
        if isinstance(read.group_offsets, Unknown) and not read.groups_unread:
            reasons[f"groups are not known: {read.group_offsets.reason}"] = None
    return tuple(reasons)


def open_transactions_after(
    read: ReadClient, outcomes: Sequence[PartitionOutcome]
) -> tuple[OpenTransaction, ...] | Unknown:
    """Transactions left open on recovered partitions: read_committed readers stop there (R18)."""
    leaders = {
        target.partition: target.leader
        for target in outcomes
        if target.result is RecoveryResult.ELECTED and target.leader is not None
    }
    if not leaders:
        return ()
    from breakglass.services.recovery.transactions.finding import with_ends_beside

    deadline = Deadline.after(patience.BRIEF)
    try:
        coordinators = read.describe(deadline).live
        found = read_open_transactions(read.sender, leaders, coordinators, deadline)
        return found if isinstance(found, Unknown) else tuple(with_ends_beside(read, found))
    except BreakglassError as error:
        return Unknown(str(error))


def left_open_text(one: OpenTransaction) -> str:
    """What an open transaction does to its partition, and what ends it."""
    if one.hanging is False:
        return (
            f"{one.partition}: open transaction of producer {one.producer_id} since offset "
            f"{one.start_offset:,}: its coordinator says {one.coordinator_state}, and "
            f"{one.left_to}"
            + (f"; if that was committed, {FINISH} commits it before" if one.aborts_at_ms else "")
        )
    kind = "hanging" if one.hanging is True else "open"
    return (
        f"{one.partition}: {kind} transaction of producer {one.producer_id} since offset "
        f"{one.start_offset:,}: read_committed consumers stop there; {FINISH} ends it by its "
        "marker"
    )


def _groups(committed: Mapping[str, int] | Unknown) -> Mapping[str, int]:
    return {} if isinstance(committed, Unknown) else committed


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
