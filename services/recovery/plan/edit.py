"""Edits of a plan. Each makes a new plan; what cannot be done is refused with the reason."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from services.errors import Refused, UsageError
from services.model import Broker, TopicPartition, Unknown
from services.recovery.judgement.case import named
from services.recovery.judgement.loss import loss_of
from services.recovery.judgement.precedence import recovery_order
from services.recovery.judgement.ranking import log_rank
from services.recovery.judgement.replica_choice import choices, refusal
from services.recovery.plan.document import ChosenBy, Entry, PartitionRecord, Plan

Choice = Callable[[PartitionRecord, int], int | str | None]
"""A rule: from a record and its leader to another leader, a reason to leave it out, or None."""

BY_HAND = "left out by hand"


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
    return _changed(
        plan, {partition: (broker, ChosenBy.HAND, "") for partition, broker in leaders.items()}
    )


def exclude(plan: Plan, partition: TopicPartition, reason: str = BY_HAND) -> Plan:
    """`exclude_all` for one partition."""
    return exclude_all(plan, [partition], reason)


def exclude_all(plan: Plan, partitions: Iterable[TopicPartition], reason: str = BY_HAND) -> Plan:
    """*plan* without the elections of *partitions*; their evidence is kept.

    Raises:
        UsageError: the plan does not know one of them.
    """
    known = [_record(plan, one).partition for one in partitions]
    return _changed(plan, dict.fromkeys(known, (None, None, reason)))


def prefer(plan: Plan, brokers: Collection[int]) -> Plan:
    """Elect one of *brokers* wherever its log is as good as the chosen one's and loses the same."""

    def choose(record: PartitionRecord, leader: int) -> int | None:
        if leader in brokers:
            return None
        wanted = (one for one in choices(record.evidence) if one in brokers)
        return next((one for one in wanted if _as_good(record, one, leader)), None)

    return _apply(plan, choose)


def never(plan: Plan, *brokers: int) -> Plan:
    """Elect the next best wherever one of *brokers* was chosen; leave out what only they could."""

    def choose(record: PartitionRecord, leader: int) -> int | str | None:
        if leader not in brokers:
            return None
        others = [one for one in choices(record.evidence) if one not in brokers]
        return others[0] if others else f"{named(brokers)} must not lead and no other replica can"

    return _apply(plan, choose)


def least_loss(plan: Plan) -> Plan:
    """Elect the replica with the smallest known loss; among equals the best ranked (R9)."""

    def choose(record: PartitionRecord, _: int) -> int | None:
        known = [
            (total, one)
            for one in choices(record.evidence)
            if isinstance(total := record.loss_of(one).total, int)
        ]
        if not known:
            return None
        return min(known, key=lambda pair: pair[0])[1]

    return _apply(plan, choose)


def brokers_in_rack(brokers: Iterable[Broker], rack: str) -> frozenset[int]:
    """The brokers of *rack*, to be preferred together."""
    return frozenset(broker.id for broker in brokers if broker.rack == rack)


@dataclass(frozen=True, slots=True)
class Difference:
    """One partition that two plans treat differently."""

    partition: TopicPartition
    before: int | None
    """Its leader in the first plan; None: not elected there."""
    after: int | None
    loss_before: int | Unknown | None
    """Records; None where it is not elected or the plan is bare."""
    loss_after: int | Unknown | None
    evidence_changed: bool
    """The plans rest on different evidence for it."""


def diff(before: Plan, after: Plan) -> tuple[Difference, ...]:
    """Partitions whose leader or evidence differs, in the order of recovery."""
    partitions = {*before.leaders, *after.leaders}
    found = (_difference(before, after, one) for one in sorted(partitions, key=recovery_order))
    return tuple([one for one in found if one.before != one.after or one.evidence_changed])


def _difference(before: Plan, after: Plan, partition: TopicPartition) -> Difference:
    old, new = before.records.get(partition), after.records.get(partition)
    first, second = before.leaders.get(partition), after.leaders.get(partition)
    return Difference(
        partition,
        first,
        second,
        None if old is None or first is None else old.loss_of(first).total,
        None if new is None or second is None else new.loss_of(second).total,
        old is not None and new is not None and _evidence(old) != _evidence(new),
    )


def _evidence(record: PartitionRecord) -> object:
    return record.facts()["evidence"]


_Decision = tuple[int | None, ChosenBy | None, str]


def _apply(plan: Plan, choose: Choice) -> Plan:
    decisions: dict[TopicPartition, _Decision] = {}
    for partition, leader in plan.leaders.items():
        chosen = choose(_record(plan, partition), leader)
        if isinstance(chosen, str):
            decisions[partition] = (None, None, chosen)
        elif chosen is not None and chosen != leader:
            decisions[partition] = (chosen, ChosenBy.RULE, "")
    return _changed(plan, decisions)


def _changed(plan: Plan, decisions: dict[TopicPartition, _Decision]) -> Plan:
    """*plan* with *decisions* in place of what it had for these partitions."""
    evidence = plan.breakglass
    if evidence is None or not decisions:
        return plan
    leaders: dict[TopicPartition, int | None] = {**plan.leaders}
    leaders.update({partition: leader for partition, (leader, _, _) in decisions.items()})
    records = tuple(
        record
        if record.partition not in decisions
        else record.model_copy(
            update=dict(
                zip(("chosen_by", "left_out"), decisions[record.partition][1:], strict=True)
            )
        )
        for record in evidence.records
    )
    entries = tuple(
        Entry(topic=partition.topic, number=partition.partition, leader=leader)
        for partition, leader in sorted(leaders.items(), key=lambda item: recovery_order(item[0]))
        if leader is not None
    )
    return Plan(entries=entries, breakglass=evidence.model_copy(update={"records": records}))


def _record(plan: Plan, partition: TopicPartition) -> PartitionRecord:
    record = plan.records.get(partition)
    if record is None:
        raise UsageError(f"The plan has no evidence for {partition}: make a plan that includes it.")
    return record


def _as_good(record: PartitionRecord, one: int, other: int) -> bool:
    first, second = record.evidence.replica(one), record.evidence.replica(other)
    if first is None or second is None or log_rank(first) != log_rank(second):
        return False
    return loss_of(record.evidence, one).records == loss_of(record.evidence, other).records
