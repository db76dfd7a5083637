"""The last look before a batch is sent: what the controller says now, against the target.

Replicas that were unread when an election was agreed to, asked again before it is sent (R25).
A broker that was silent or fenced then may answer by now. Its log is judged with the others: an
election that would lose more than was agreed to is refused, one that loses no more goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    PartitionEvidence,
    PartitionState,
    Reassignment,
    ReplicaLog,
    TopicPartition,
    Unknown,
    known,
)
from breakglass.services.recovery.evidence.gather import GroupBounds, gather
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    refused,
)
from breakglass.services.recovery.judgement.inputs import named
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.snapshot import ClusterDescription, ClusterSnapshot


@dataclass(frozen=True, slots=True)
class HeardNow:
    """What the unread replicas of one partition report."""

    brokers: frozenset[int] = frozenset()
    """Those that report their logs."""
    change: str = ""
    """Why the election would lose more than was agreed to; empty if it would not."""


NOTHING_NEW = HeardNow()


def ask_unread(
    client: ReadClient,
    evidence: Mapping[TopicPartition, PartitionEvidence],
    targets: Sequence[ElectionTarget],
) -> dict[TopicPartition, HeardNow]:
    """Ask once for the replicas of *targets* that *evidence*, which was agreed to, lacks.

    Partitions of which no further replica answers within `patience.ROLL_CALL` are left out.
    """
    designees = {target.partition: target.designee for target in targets}
    unread = {
        partition: found
        for partition, designee in designees.items()
        if partition in evidence and (found := _unread(evidence[partition], designee)) is not None
    }
    if not unread:
        return {}
    deadline = Deadline.after(patience.ROLL_CALL)
    try:
        brokers = client.describe(deadline)
    except BreakglassError:
        # The look at the metadata, which follows, says so.
        return {}
    snapshot = _snapshot(brokers, tuple(unread.values()), evidence)
    nobody = GroupBounds(client, snapshot, (), deadline, unasked=brokers.live)
    *_, last = gather(client, snapshot, snapshot.partitions, deadline, groups=nobody)
    heard = {}
    for told in last.partitions:
        logs = {replica.broker: replica for replica in told.replicas if known(replica.log_end)}
        if logs:
            partition = told.partition
            heard[partition] = _judged(evidence[partition], logs, designees[partition])
    return heard


def _unread(evidence: PartitionEvidence, designee: int) -> PartitionState | None:
    """The partition as if it were assigned to its unread replicas alone; None without any.

    A designee that was unread was chosen as it is (R16).
    """
    brokers = tuple(
        replica.broker
        for replica in evidence.replicas
        if isinstance(replica.log_end, Unknown) and replica.broker != designee
    )
    return replace(evidence.state, assignment=brokers) if brokers else None


def _snapshot(
    brokers: ClusterDescription,
    unread: tuple[PartitionState, ...],
    evidence: Mapping[TopicPartition, PartitionEvidence],
) -> ClusterSnapshot:
    settings = {state.partition.topic: evidence[state.partition].settings for state in unread}
    return ClusterSnapshot(brokers, Unknown("not asked"), unread, 0, settings)


def _judged(then: PartitionEvidence, logs: Mapping[int, ReplicaLog], designee: int) -> HeardNow:
    """*then* with the *logs* that are read now in place of those that were unread."""
    now = replace(
        then, replicas=tuple(logs.get(replica.broker, replica) for replica in then.replicas)
    )
    before, after = loss_of(then, designee).total, loss_of(now, designee).total
    heard = frozenset(logs)
    if before == after or (isinstance(before, Unknown) and isinstance(after, Unknown)):
        return HeardNow(heard)
    answer = f"{named(sorted(heard))} {'answers' if len(heard) == 1 else 'answer'} by now"
    agreed = f"b{designee} was to lose {_records(before)}"
    return HeardNow(
        heard, f"{answer}: {agreed}, and electing it would lose {_records(after)}: plan again"
    )


def _records(count: int | Unknown) -> str:
    return "an unknown number of records" if isinstance(count, Unknown) else f"{count:,}"


@dataclass(frozen=True, slots=True)
class TargetCheck:
    """A target, and its partition as read immediately before sending."""

    target: ElectionTarget
    state: PartitionState
    brokers: ClusterDescription
    heard: HeardNow = field(default=NOTHING_NEW)
    """What replicas say that were unread when the price was counted."""


def recheck(
    target: ElectionTarget,
    state: PartitionState | None,
    brokers: ClusterDescription,
    heard: HeardNow = NOTHING_NEW,
) -> PartitionOutcome | None:
    """The outcome that stops *target* here, or None when it may be sent.

    *state* is the partition as the metadata has it now; None when it is gone. *heard* is what
    replicas say by now that were unread.
    """
    if state is None:
        return refused(target, "the topic is gone: leave it out of the plan")
    if state.topic_id != target.topic_id:
        return refused(target, "the topic was recreated since the evidence was read: plan again")
    if state.leader is not None:
        leads = "" if state.leader == target.designee else f"led by b{state.leader}"
        return PartitionOutcome(
            target, RecoveryResult.ALREADY_ONLINE, leads, state.leader, state.leader_epoch
        )  # fmt: skip
    for guard in _GUARDS:
        refusal = guard(TargetCheck(target, state, brokers, heard))
        if refusal:
            return refused(target, refusal)
    return None


def recheck_log(target: ElectionTarget, log_end: int | Unknown) -> PartitionOutcome | None:
    """The outcome that stops *target* because its designee's log is not what was agreed to.

    *log_end* is where that log ends now. A log that was unread when it was chosen by hand (R16)
    was agreed to as it is.
    """
    if target.log_end is None or log_end == target.log_end:
        return None
    name = f"b{target.designee}"
    if isinstance(log_end, Unknown):
        return refused(target, f"{name} no longer reports its log ({log_end.reason}): read again")
    return refused(
        target, f"the log of {name} ended at {target.log_end} and now ends at {log_end}: plan again"
    )


def members(state: PartitionState, brokers: ClusterDescription) -> tuple[int, ...]:
    """Unfenced members of ISR, ELR and last known ELR: any election prefers them to the others."""
    elr = state.elr if known(state.elr) else ()
    last = state.last_known_elr if known(state.last_known_elr) else ()
    every = dict.fromkeys((*state.isr, *elr, *last))
    strangers = brokers.unregistered(tuple(every))
    return tuple(
        member for member in every if brokers.fenced(member) is not True and member not in strangers
    )


def holders(look: TargetCheck) -> tuple[int, ...]:
    """H of R1: `members` other than the designee, which the reorder itself would elect."""
    return tuple(
        member for member in members(look.state, look.brokers) if member != look.target.designee
    )


def _not_led_since(look: TargetCheck) -> str | None:
    then, now = look.target.leader_epoch, look.state.leader_epoch
    if now == then:
        return None
    return (
        f"it was led again since the evidence was read (leader epoch {then} became {now}): plan "
        "again"
    )


def _designee_assigned(look: TargetCheck) -> str | None:
    if look.target.designee in look.state.assignment:
        return None
    return f"b{look.target.designee} is no longer in the assignment: plan again"


def _designee_unfenced(look: TargetCheck) -> str | None:
    designee = look.target.designee
    if look.brokers.fenced(designee) is False:
        return None
    return f"b{designee} is fenced: start it, wait until it is unfenced, then continue"


def _no_holder(look: TargetCheck) -> str | None:
    ahead = holders(look)
    if not ahead:
        return None
    names = " and ".join(f"b{broker}" for broker in ahead)
    return (
        f"{names} would be elected instead of b{look.target.designee}: stop broker "
        f"{' and '.join(map(str, ahead))}, wait until it is fenced, read again"
    )


def _nobody_came_back(look: TargetCheck) -> str | None:
    target = look.target
    strangers = look.brokers.unregistered(look.state.assignment)
    back = [
        member
        for member in look.state.assignment
        if member != target.designee
        and member not in target.live
        and member not in (*look.heard.brokers, *strangers)
        and look.brokers.fenced(member) is not True
    ]
    if not back:
        return None
    names = " and ".join(f"b{broker}" for broker in back)
    return f"{names} came back since the price was counted and may hold more: plan again"


def _loses_no_more(look: TargetCheck) -> str | None:
    return look.heard.change or None


def not_moving(look: TargetCheck) -> str | None:
    """Why the order may not be written: a reassignment runs, or may run (R12)."""
    reassignment = look.state.reassignment
    if isinstance(reassignment, Unknown):
        return f"it is unknown whether a reassignment runs ({reassignment.reason})"
    if isinstance(reassignment, Reassignment):
        return "a reassignment runs: cancel it or let it end, then plan again"
    return None


def all_registered(look: TargetCheck) -> str | None:
    """Why the order would be rejected: it has a broker that the cluster does not know (R12)."""
    absent = look.brokers.unregistered(look.state.assignment)
    if not absent or _elected_as_it_is(look, absent):
        return None
    names = ", ".join(f"b{broker}" for broker in absent)
    return f"the controller rejects a reorder while {names} is not registered: start it once"


def _elected_as_it_is(look: TargetCheck, absent: tuple[int, ...]) -> bool:
    """Whether nothing is reordered, and every broker before the designee cannot be elected."""
    target, order = look.target, look.state.assignment
    if target.order != target.assignment or target.designee not in order:
        return False
    before = order[: order.index(target.designee)]
    return all(broker in absent or look.brokers.fenced(broker) is True for broker in before)


def _same_assignment(look: TargetCheck) -> str | None:
    if look.state.assignment in (look.target.assignment, look.target.order):
        return None
    return (
        f"the assignment is now {list(look.state.assignment)}: another operator or tool is at "
        "work; find out who, then plan again"
    )


_GUARDS: tuple[Callable[[TargetCheck], str | None], ...] = (
    _not_led_since,
    _designee_assigned,
    _designee_unfenced,
    all_registered,
    _no_holder,
    not_moving,
    _same_assignment,
    _loses_no_more,
    _nobody_came_back,
)
"""In the order in which an operator wants to read them (R16, R12, R1, R25)."""
