"""What elections leave behind: open transactions (R18) and groups past the end (R19)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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

AFTER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class GroupPastEnd:
    """A consumer group that committed past the end of a recovered partition (R19)."""

    partition: TopicPartition
    group: str
    committed: int
    log_end: int


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What is still to be put right where leaders were elected."""

    open_transactions: tuple[OpenTransaction, ...] | Unknown
    """read_committed consumers stop there."""
    groups_past_end: tuple[GroupPastEnd, ...]
    """They meet OFFSET_OUT_OF_RANGE."""
    given_up: tuple[GivenUp, ...] = ()
    """Brokers whose unread logs would be cut, were they started."""


def look_after(
    client: ReadClient, outcomes: Sequence[PartitionOutcome], wanted: Sequence[Priced]
) -> Aftermath:
    """What the elections of *outcomes* have left behind; *wanted* is what was agreed to.

    Never raises for a broker: what it does not tell is Unknown.
    """
    evidence = {one.partition: one.evidence for one in wanted}
    elected = [one.target for one in outcomes if one.result is RecoveryResult.ELECTED]
    if elected:
        # Brokers are asked by their ids, which a new client cannot find yet.
        with contextlib.suppress(BreakglassError):
            client.describe(Deadline.after(AFTER_SECONDS))
    known = [one for one in elected if one.partition in evidence]
    return Aftermath(
        open_transactions_after(client, outcomes),
        past_end(known, evidence),
        given_up(outcomes, {one.partition: one.stake.abandons for one in wanted}),
    )


def past_end(
    targets: Iterable[ElectionTarget], evidence: Mapping[TopicPartition, PartitionEvidence]
) -> tuple[GroupPastEnd, ...]:
    """Groups that the elections of *targets* leave with a committed offset past the end."""
    chosen = list(targets)
    committed = {one.partition: evidence[one.partition].group_offsets for one in chosen}
    return groups_past_end(chosen, committed)


def open_transactions_after(
    read: ReadClient, outcomes: Sequence[PartitionOutcome]
) -> tuple[OpenTransaction, ...] | Unknown:
    """Transactions left open on recovered partitions: read_committed readers stop there (R18)."""
    leaders = {
        one.partition: one.leader
        for one in outcomes
        if one.result is RecoveryResult.ELECTED and one.leader is not None
    }
    if not leaders:
        return ()
    deadline = Deadline.after(AFTER_SECONDS)
    coordinators = sorted(set(leaders.values()))
    return read_open_transactions(read.sender, leaders, coordinators, deadline)


def groups_past_end(
    targets: Sequence[ElectionTarget],
    committed: Mapping[TopicPartition, Mapping[str, int] | Unknown],
) -> tuple[GroupPastEnd, ...]:
    """Groups of *targets* that will meet OFFSET_OUT_OF_RANGE after the election."""
    return tuple(
        GroupPastEnd(one.partition, group, offset, one.log_end)
        for one in targets
        if one.log_end is not None
        for group, offset in sorted(_groups(committed.get(one.partition)).items())
        if offset > one.log_end
    )


def _groups(committed: Mapping[str, int] | Unknown | None) -> Mapping[str, int]:
    return {} if committed is None or isinstance(committed, Unknown) else committed
