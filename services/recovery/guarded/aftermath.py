"""What elections leave to clean up: open transactions (R18) and groups past the end (R19)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.cluster.open_transactions import (
    OpenTransaction,
    read_open_transactions,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionEvidence, TopicPartition, Unknown
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
)
from breakglass.services.recovery.guarded.election_quote import Priced
from breakglass.services.recovery.guarded.given_up import GivenUp, given_up

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
