"""Edits of a plan: each makes a new plan, or is refused with the reason.

What persons add to a plan: notes for one another, and their approval of what they read.
Neither is part of the digest. An approval counts only while all that was read is the same, the
notes included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from breakglass.services.recovery.plan.document import (
    Approval,
    ChosenBy,
    PartitionRecord,
    Plan,
    PlanEntry,
    same_person,
)
from breakglass.services.snapshot import Broker

NOTES = 100
"""The most notes that a plan may have."""
NOTE_LENGTH = 1_000
"""Characters of a note."""


def with_notes(plan: Plan, notes: Sequence[str]) -> Plan:
    """*plan* with *notes* in place of its present notes.

    Raises:
        UsageError: a note is empty or too long, there are too many, or the plan is a bare one.
    """
    if tuple(notes) == notes_of(plan):
        return plan
    kept = tuple([note.strip() for note in notes])
    if plan.breakglass is None:
        raise UsageError(
            "A file in Kafka's format has no place for notes: read its evidence first."
        )
    fault = next((fault for note in kept if (fault := note_fault(note))), "") or number_fault(kept)
    if fault:
        raise UsageError(f"{fault[:1].upper()}{fault[1:]}.")
    return plan.with_evidence(notes=kept, seal="")


def notes_of(plan: Plan) -> tuple[str, ...]:
    """The notes of *plan*, oldest first; none in a bare plan."""
    return plan.breakglass.notes if plan.breakglass else ()


def note_fault(note: str) -> str:
    """What is wrong with one *note*; empty if nothing is."""
    if not note.strip():
        return "a note has no words: write some or drop it"
    return text_fault(note, "a note")


def text_fault(text: str, what: str) -> str:
    """Why *text*, which messages call *what*, cannot be kept in a plan; empty if it can."""
    if len(text) > NOTE_LENGTH:
        return f"{what} has {len(text):,} characters and may have {NOTE_LENGTH:,}: shorten it"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return f"{what} has half a character (a lone surrogate): write it again"
    return ""


def number_fault(notes: Sequence[object]) -> str:
    """Whether there are too many *notes*; empty if not."""
    if len(notes) <= NOTES:
        return ""
    return f"there are {len(notes):,} notes and {NOTES} are kept: remove some"


NAME_LENGTH = 100
WANTED = 2
"""Persons that have to approve a plan before it runs: four eyes."""


def approve(plan: Plan, by: str, at_ms: int) -> Plan:
    """*plan* with the agreement of *by* to all that it says now.

    One person counts once: a second approval by the same person changes nothing.

    Raises:
        ValueError: a bare plan has no evidence to agree to.
        UsageError: the name is empty, too long or has characters that cannot be printed.
    """
    if plan.breakglass is None:
        raise ValueError("a bare plan has no evidence to approve")
    name = " ".join(by.split())
    if not name or len(name) > NAME_LENGTH or not name.isprintable():
        raise UsageError(f"Who approves needs a name of 1 to {NAME_LENGTH} printable characters.")
    if any(same_person(name, approval.by) for approval in plan.approvals):
        return plan
    given = Approval(by=name, at_ms=at_ms, digest=plan.digest, seal=plan.seal)
    return plan.with_evidence(approvals=(*plan.breakglass.approvals, given))


def voided(plan: Plan) -> tuple[str, ...]:
    """Who agreed to *plan* as it was before, and not to what it is now."""
    given = plan.breakglass.approvals if plan.breakglass else ()
    names = dict.fromkeys(approval.by for approval in given)
    return tuple(
        [
            name
            for name in names
            if not any(same_person(name, approval.by) for approval in plan.approvals)
        ]
    )


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
    changed = evidence.model_copy(update={"records": records, "digest": "", "seal": ""})
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
