"""Makes a plan of assessments, sums it up in a line, and says which consents it needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from breakglass.services.guard import consent
from breakglass.services.guard.consent import ConsentGroup, Price, Stake, total_price
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.assessment import (
    Assessment,
    Verdict,
    own_consent,
    recovery_order,
    refusal,
)
from breakglass.services.recovery.plan.document import (
    ChosenBy,
    PartitionRecord,
    Plan,
    PlanEntry,
    PlanEvidence,
    record_of,
)
from breakglass.services.words.figures import partitions_text, unread_told, unread_total


def make_plan(
    assessments: Iterable[Assessment],
    cluster_id: str,
    made_at_ms: int,
    *,
    include_waiting: bool = True,
    notes: tuple[str, ...] = (),
) -> Plan:
    """Elect the designee of each automatable partition; leave out the others, with the reason.

    Internal topics come first (R17). Without *include_waiting*, partitions that a broker's
    start would bring back whole, or with more records, are left out as well.
    """
    records = [_recommended(assessment, include_waiting) for assessment in assessments]
    records.sort(key=lambda decided: recovery_order(decided[0].partition))
    entries = [
        PlanEntry(topic=record.partition.topic, number=record.partition.partition, leader=designee)
        for record, designee in records
        if designee is not None
    ]
    return _plan(entries, (record for record, _ in records), cluster_id, made_at_ms, notes)


@dataclass(frozen=True, slots=True)
class Dismissed:
    """An election of a bare plan that cannot run."""

    partition: TopicPartition
    reason: str


def adopt(
    bare: Plan, assessments: Iterable[Assessment], cluster_id: str, made_at_ms: int
) -> tuple[Plan, tuple[Dismissed, ...]]:
    """Give a bare plan fresh evidence: the elections that can run, and those that cannot.

    Partitions without an assessment have a leader or do not exist.
    """
    fresh = {assessment.partition: assessment for assessment in assessments}
    entries: list[PlanEntry] = []
    records: list[PartitionRecord] = []
    dismissed: list[Dismissed] = []
    for entry in sorted(bare.entries, key=lambda entry: recovery_order(entry.partition)):
        assessment = fresh.get(entry.partition)
        if assessment is None:
            reason = "it is not offline, or there is no such partition"
            dismissed.append(Dismissed(entry.partition, reason))
            continue
        reason = refusal(assessment.evidence, entry.leader)
        if reason:
            dismissed.append(Dismissed(entry.partition, reason))
            records.append(record_of(assessment, left_out=reason))
            continue
        best = assessment.automatable and assessment.designee == entry.leader
        records.append(record_of(assessment, ChosenBy.RANK if best else ChosenBy.HAND))
        entries.append(entry)
    return _plan(entries, records, cluster_id, made_at_ms, ()), tuple(dismissed)


def consent_groups(plan: Plan) -> tuple[ConsentGroup, ...]:
    """The consents that *plan* needs: first each that stands alone, then the rest.

    Raises ValueError for a bare plan, which has no evidence yet (`adopt`).
    """
    if plan.breakglass is None:
        raise ValueError("a bare plan needs evidence before consent")
    return consent.consent_groups(
        _stake(plan.records[partition], leader) for partition, leader in plan.leaders.items()
    )


def _stake(record: PartitionRecord, leader: int) -> Stake:
    why_alone = own_consent(record.evidence, leader, record.gone)
    abandons = record.loss_of(leader).abandons
    return Stake(record.partition, _price(record, leader), why_alone, abandons)


def plan_price(plan: Plan) -> Price:
    """What the whole of *plan* loses; unknown as soon as one election's loss is."""
    return total_price(
        [_price(plan.records[partition], leader) for partition, leader in plan.leaders.items()]
    )  # fmt: skip


def _price(record: PartitionRecord, leader: int) -> Price:
    loss = record.loss_of(leader)
    return Price(loss.total, loss.approximate)


def _recommended(
    assessment: Assessment, include_waiting: bool
) -> tuple[PartitionRecord, int | None]:
    if not assessment.automatable:
        reason = assessment.barred or assessment.reasons[0]
        return record_of(assessment, left_out=reason), None
    if assessment.verdict is Verdict.WAIT and not include_waiting:
        return record_of(assessment, left_out=assessment.reasons[0]), None
    return record_of(assessment, ChosenBy.RANK), assessment.designee


def _plan(
    entries: Iterable[PlanEntry],
    records: Iterable[PartitionRecord],
    cluster_id: str,
    made_at_ms: int,
    notes: tuple[str, ...],
) -> Plan:
    evidence = PlanEvidence(
        cluster_id=cluster_id, made_at_ms=made_at_ms, records=tuple(records), notes=notes
    )
    return Plan(entries=tuple(entries), breakglass=evidence)


@dataclass(frozen=True, slots=True)
class PlanTotals:
    """``elects 3 partitions, loses 50, b3 unread (at least 25)``."""

    elected: int
    left_out: int
    price: Price | None
    """The loss; None for a bare plan, whose loss is unknown."""
    unread: str
    """What only unread replicas may hold: ``0``, ``b3``, ``b3 >= 25``, ``?``."""
    unread_told: str = ""
    """The unread records in a sentence."""

    def __str__(self) -> str:
        counted = f"elects {partitions_text(self.elected)}"
        if self.price is None or not self.elected:
            return counted
        return f"{counted}, loses {self.price}, {self.unread_told}"


def totals_of(plan: Plan) -> PlanTotals:
    """Sum up *plan*."""
    if plan.breakglass is None:
        return PlanTotals(len(plan.leaders), 0, None, "?")
    bounds = [plan.records[partition].unread for partition in plan.leaders]
    left = len(plan.records) - len(plan.leaders)
    return PlanTotals(
        len(plan.leaders), left, plan_price(plan), unread_total(bounds), unread_told(bounds)
    )
