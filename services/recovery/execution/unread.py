"""Replicas that were unread when an election was agreed to, asked again before it is sent (R25).

A broker that was silent or fenced then may answer by now. Its log is judged with the others: an
election that would lose more than was agreed to is refused, one that loses no more goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    TopicPartition,
    Unknown,
    known,
)
from breakglass.services.recovery.evidence.gather import gather
from breakglass.services.recovery.evidence.group_bounds import GroupBounds
from breakglass.services.recovery.execution.target import ElectionTarget
from breakglass.services.recovery.judgement.inputs import named
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.snapshot import ClusterDescription, ClusterSnapshot

_NOT_ASKED = Unknown("not asked")


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
    return ClusterSnapshot(brokers, _NOT_ASKED, unread, 0, settings)


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
