"""Edits of a plan: each makes a new plan, or is refused with the reason."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from breakglass.services.errors import Refused, UsageError
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.judgement.assessment import (
    Verdict,
    choices,
    recovery_order,
    refusal,
)
from breakglass.services.recovery.judgement.inputs import named
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.recovery.judgement.ranking import log_rank
from breakglass.services.recovery.plan.document import ChosenBy, PartitionRecord, Plan, PlanEntry
from breakglass.services.snapshot import Broker

Choice = Callable[[PartitionRecord, int], int | str | None]
"""A rule: from a record and its leader to another leader, a reason to leave it out, or None."""

Partitions = Collection[TopicPartition] | None
"""The partitions that a rule is for; None: all."""

BY_HAND = "left out by hand"


class Decision(NamedTuple):
    """The decision for a partition."""

    leader: int | None
    """The leader to elect; None: the partition is left out."""
    chosen_by: ChosenBy | None = None
    left_out: str = ""


def by_hand(broker: int) -> Decision:
    """The operator elects *broker*."""
    return Decision(broker, ChosenBy.HAND)


def left_out(reason: str) -> Decision:
    """Nobody is elected."""
    return Decision(None, None, reason)


def set_leader(plan: Plan, partition: TopicPartition, broker: int) -> Plan:
    """`set_leaders` for one partition."""
    return set_leaders(plan, {partition: broker})


def set_leaders(plan: Plan, leaders: Mapping[TopicPartition, int]) -> Plan:
    """*plan* with *leaders* designated for partitions that may have been left out before.

    A replica that could not be read may be set; its election then needs a consent of its own
    that says ``lose unknown`` (R16).

    Raises:
        UsageError: the plan has no evidence for one of the partitions.
        Refused: one of the replicas cannot be elected.
    """
    for partition, broker in leaders.items():
        reason = refusal(_record(plan, partition).evidence, broker)
        if reason:
            raise Refused(f"b{broker} cannot lead {partition}: {reason}.")
    return decide(plan, {partition: by_hand(broker) for partition, broker in leaders.items()})


def exclude(plan: Plan, partition: TopicPartition, reason: str = BY_HAND) -> Plan:
    """`exclude_all` for one partition."""
    return exclude_all(plan, [partition], reason)


def exclude_all(plan: Plan, partitions: Iterable[TopicPartition], reason: str = BY_HAND) -> Plan:
    """*plan* without the elections of *partitions*; their evidence is kept.

    Raises:
        UsageError: the plan does not know one of them.
    """
    known = [_record(plan, partition).partition for partition in partitions]
    return decide(plan, dict.fromkeys(known, left_out(reason)))


def prefer(plan: Plan, brokers: Collection[int], only: Partitions = None) -> Plan:
    """Elect one of *brokers* wherever its log is as good as the chosen one's and loses the same.

    A rule holds for the elections of *only*, by default for all.
    """

    def choose(record: PartitionRecord, leader: int) -> int | None:
        if leader in brokers:
            return None
        wanted = (broker for broker in choices(record.evidence) if broker in brokers)
        return next((broker for broker in wanted if _as_good(record, broker, leader)), None)

    return _apply(plan, choose, only)


def never(plan: Plan, *brokers: int, only: Partitions = None) -> Plan:
    """Elect the next best wherever one of *brokers* was chosen; leave out what only they could."""

    def choose(record: PartitionRecord, leader: int) -> int | str | None:
        if leader not in brokers:
            return None
        others = [broker for broker in choices(record.evidence) if broker not in brokers]
        return others[0] if others else f"{named(brokers)} must not lead and no other replica can"

    return _apply(plan, choose, only)


def least_loss(plan: Plan, only: Partitions = None) -> Plan:
    """Elect the replica with the smallest known loss; among equals the best ranked (R9)."""

    def choose(record: PartitionRecord, _: int) -> int | None:
        known = [
            (total, broker)
            for broker in choices(record.evidence)
            if isinstance(total := record.loss_of(broker).total, int)
        ]
        if not known:
            return None
        return min(known, key=lambda pair: pair[0])[1]

    return _apply(plan, choose, only)


def without_waiting(plan: Plan, only: Partitions = None) -> Plan:
    """Leave out what a broker's start would bring back whole, with the reason recorded for it."""

    def choose(record: PartitionRecord, _: int) -> str | None:
        if record.verdict != Verdict.WAIT.value:
            return None
        return record.reasons[0] if record.reasons else record.action

    return _apply(plan, choose, only)


def brokers_in_rack(brokers: Iterable[Broker], rack: str) -> frozenset[int]:
    """The brokers of *rack*, to be preferred together."""
    return frozenset(broker.id for broker in brokers if broker.rack == rack)


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """A partition that two plans treat differently."""

    partition: TopicPartition
    before: int | None
    """Its leader in the first plan; None: not elected there."""
    after: int | None
    loss_before: int | Unknown | None
    """The loss in records; None where it is not elected or the plan is bare."""
    loss_after: int | Unknown | None
    evidence_changed: bool
    """The plans rest on different evidence for it."""


def diff(before: Plan, after: Plan) -> tuple[PlanDifference, ...]:
    """Partitions whose leader or evidence differs, in the order of recovery."""
    partitions = {*before.leaders, *after.leaders}
    found = (
        _difference(before, after, partition)
        for partition in sorted(partitions, key=recovery_order)
    )
    return tuple(
        [change for change in found if change.before != change.after or change.evidence_changed]
    )


def _difference(before: Plan, after: Plan, partition: TopicPartition) -> PlanDifference:
    old, new = before.records.get(partition), after.records.get(partition)
    first, second = before.leaders.get(partition), after.leaders.get(partition)
    # Whether the evidence is equal, apart from the moments at which replicas were read.
    return PlanDifference(
        partition,
        first,
        second,
        None if old is None or first is None else old.loss_of(first).total,
        None if new is None or second is None else new.loss_of(second).total,
        old is not None
        and new is not None
        and not (
            old.evidence is new.evidence or old.facts()["evidence"] == new.facts()["evidence"]
        ),
    )


def _apply(plan: Plan, choose: Choice, only: Partitions) -> Plan:
    decisions: dict[TopicPartition, Decision] = {}
    wanted = None if only is None else frozenset(only)
    for partition, leader in plan.leaders.items():
        if wanted is not None and partition not in wanted:
            continue
        chosen = choose(_record(plan, partition), leader)
        if isinstance(chosen, str):
            decisions[partition] = left_out(chosen)
        elif chosen is not None and chosen != leader:
            decisions[partition] = Decision(chosen, ChosenBy.RULE)
    return decide(plan, decisions)


def decide(plan: Plan, decisions: Mapping[TopicPartition, Decision]) -> Plan:
    """*plan* with *decisions* in place of its present decisions for these partitions.

    The caller has looked at `refusal`. A bare plan stays as it is.
    """
    evidence = plan.breakglass
    if evidence is None or not decisions:
        return plan
    records = tuple([_decided(record, decisions) for record in evidence.records])
    kept = [entry for entry in plan.entries if entry.partition not in decisions]
    new = [
        PlanEntry(topic=partition.topic, number=partition.partition, leader=decision.leader)
        for partition, decision in decisions.items()
        if decision.leader is not None
    ]
    entries = sorted((*kept, *new), key=lambda entry: recovery_order(entry.partition))
    changed = evidence.model_copy(update={"records": records, "digest": ""})
    return Plan(entries=tuple(entries), breakglass=changed)


def _decided(
    record: PartitionRecord, decisions: Mapping[TopicPartition, Decision]
) -> PartitionRecord:
    decision = decisions.get(record.partition)
    return record if decision is None else record.decided(decision.chosen_by, decision.left_out)


def _record(plan: Plan, partition: TopicPartition) -> PartitionRecord:
    record = plan.records.get(partition)
    if record is None:
        raise UsageError(f"The plan has no evidence for {partition}: make a plan that includes it.")
    return record


def _as_good(record: PartitionRecord, broker: int, other: int) -> bool:
    first, second = record.evidence.replica(broker), record.evidence.replica(other)
    if first is None or second is None or log_rank(first) != log_rank(second):
        return False
    return loss_of(record.evidence, broker).records == loss_of(record.evidence, other).records
