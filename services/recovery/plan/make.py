"""Makes a plan of assessments, sums it up in a line, and says which consents it needs.

A plan as rows: the decision for each partition, the recommendation, and the state now.
A plan keeps whether each election can be automated and how the replicas rank. So the
recommendation is known wherever the plan is: it is `make_plan` of the same assessments. A row is
a plain value, which screens keep without the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.services.guard import consent
from breakglass.services.guard.consent import ConsentGroup, Price, Stake, total_price
from breakglass.services.model import PartitionEvidence, ReplicaLog, TopicPartition
from breakglass.services.recovery.evidence.contents import as_known
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    RecoveryResult,
    Skipped,
    target_of,
)
from breakglass.services.recovery.judgement.assessment import (
    Action,
    Assessment,
    Verb,
    Verdict,
    own_consent,
    recovery_order,
    refusal,
)
from breakglass.services.recovery.plan.check import Checked, CheckStatus, check, led_evidence
from breakglass.services.recovery.plan.document import (
    ChosenBy,
    PartitionRecord,
    Plan,
    PlanEntry,
    PlanEvidence,
    record_of,
)
from breakglass.services.recovery.plan.edit import Decision, Partitions, decide, left_out
from breakglass.services.recovery.triage import Left, Selection
from breakglass.services.words.figures import (
    loss_text,
    partitions_text,
    unread_text,
    unread_told,
    unread_total,
)

if TYPE_CHECKING:
    from breakglass.services.model import ReplicaLog


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


def adopt(
    bare: Plan, assessments: Iterable[Assessment], cluster_id: str, made_at_ms: int
) -> tuple[Plan, tuple[Left, ...]]:
    """Give a bare plan fresh evidence: the elections that can run, and those that cannot.

    Partitions without an assessment have a leader or do not exist.
    """
    fresh = {assessment.partition: assessment for assessment in assessments}
    entries: list[PlanEntry] = []
    records: list[PartitionRecord] = []
    dismissed: list[Left] = []
    for entry in sorted(bare.entries, key=lambda entry: recovery_order(entry.partition)):
        assessment = fresh.get(entry.partition)
        if assessment is None:
            reason = "it is not offline, or there is no such partition"
            dismissed.append(Left(entry.partition, reason))
            continue
        reason = refusal(assessment.evidence, entry.leader)
        if reason:
            dismissed.append(Left(entry.partition, reason))
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


NOT_RECOMMENDED = "not recommended"


def recommended(record: PartitionRecord) -> int | None:
    """The replica to elect; None: only an operator can decide."""
    return record.ranking[0] if record.automatable and record.ranking else None


def as_recommended(plan: Plan, only: Partitions = None) -> Plan:
    """*plan* with the recommendation for *only*, by default for every partition it knows."""
    wanted = None if only is None else frozenset(only)
    return decide(
        plan,
        {
            partition: _recommendation(record)
            for partition, record in plan.records.items()
            if (wanted is None or partition in wanted) and departs(plan, record)
        },
    )


def departs(plan: Plan, record: PartitionRecord) -> bool:
    """Whether *plan* treats the partition of *record* otherwise than recommended."""
    return plan.leaders.get(record.partition) != recommended(record)


def _recommendation(record: PartitionRecord) -> Decision:
    leader = recommended(record)
    if leader is not None:
        return Decision(leader, ChosenBy.RANK)
    return left_out("; ".join(record.reasons[:1]) or NOT_RECOMMENDED)


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One partition of a plan."""

    partition: TopicPartition
    leader: int | None
    """None: it is left out."""
    recommended: int | None
    """None: nobody."""
    verdict: str
    """Empty, as are action and the figures, in a bare plan."""
    action: str
    loses: Price | None
    """Of electing the leader; None where nobody is elected or nothing is known yet."""
    unread: str
    chosen_by: str
    why: str
    """Why this leader, or why it is left out."""
    checked: Checked | None = None
    """How it stood when everything was read again; None: not since it was decided."""

    @property
    def departs(self) -> bool:
        """It is treated otherwise than recommended."""
        return self.leader != self.recommended


def plan_rows(
    plan: Plan, checked: Mapping[TopicPartition, Checked] | None = None
) -> tuple[PlanRow, ...]:
    """The partitions of *plan* in the order of recovery, those left out in their places.

    *checked* is how elections stood; one of another leader than the plan's is disregarded.
    """
    found = checked or {}
    partitions = sorted({**plan.leaders, **plan.records}, key=recovery_order)
    return tuple([_row(plan, partition, found.get(partition)) for partition in partitions])


def why(record: PartitionRecord, leader: int | None) -> str:
    """Why *leader* was chosen, or why the partition is left out."""
    if leader is None:
        return record.left_out
    if record.chosen_by is None or record.chosen_by.value == "rank":
        return record.reasons[0] if record.reasons else ""
    best = record.ranking[0]
    if best == leader:
        return f"b{leader} ranks first"
    return f"over b{best}, which ranks first and loses {loss_text(record.loss_of(best))}"


def verdict_on(record: PartitionRecord, leader: int | None) -> tuple[str, str]:
    """The verdict and the action for electing *leader*, who may not be the best replica."""
    best = record.ranking[0] if record.ranking else None
    if leader in (None, best) or record.verdict not in (Verdict.SAFE, Verdict.LOSS):
        return record.verdict, record.action
    assert leader is not None
    lossless = record.verdict == Verdict.SAFE and record.loss_of(leader).total == 0
    return Verdict.SAFE if lossless else Verdict.LOSS, str(Action(Verb.ELECT, leader))


def _row(plan: Plan, partition: TopicPartition, checked: Checked | None) -> PlanRow:
    leader, record = plan.leaders.get(partition), plan.records.get(partition)
    holds = checked if checked is not None and checked.leader == leader else None
    if record is None:
        return PlanRow(partition, leader, leader, "", "", None, "?", "", "", holds)
    verdict, action = verdict_on(record, leader)
    return PlanRow(
        partition,
        leader,
        recommended(record),
        verdict,
        action,
        _row_price(record, leader),
        unread_text(record.unread),
        record.chosen_by.value if record.chosen_by else "",
        why(record, leader),
        holds,
    )


def _row_price(record: PartitionRecord, leader: int | None) -> Price | None:
    if leader is None:
        return None
    loss = record.loss_of(leader)
    return Price(loss.total, loss.approximate)


@dataclass(frozen=True, slots=True)
class ReplicaCandidate:
    """One replica of a partition, as a choice."""

    replica: ReplicaLog
    loses: Price
    """The loss of electing the replica; unknown where its log could not be read."""
    refusal: str = ""
    """Why the replica cannot be elected; empty if it can."""
    own_consent: str = ""
    """Why the election needs a consent of its own; empty if it does not."""

    @property
    def broker(self) -> int:
        return self.replica.broker

    @property
    def eligible(self) -> bool:
        return not self.refusal


def candidates(record: PartitionRecord) -> tuple[ReplicaCandidate, ...]:
    """Every replica of *record*, best ranked first."""
    replicas = [record.evidence.replica(broker) for broker in record.ranking]
    return tuple([_candidate(record, replica) for replica in replicas if replica is not None])


def _candidate(record: PartitionRecord, replica: ReplicaLog) -> ReplicaCandidate:
    loss = record.loss_of(replica.broker)
    barred = refusal(record.evidence, replica.broker)
    alone = "" if barred else own_consent(record.evidence, replica.broker, record.gone)
    return ReplicaCandidate(replica, Price(loss.total, loss.approximate), barred, alone)


@dataclass(frozen=True, slots=True)
class Appraisal:
    """Every election of a plan, checked against the present."""

    plan: Plan
    """The plan itself; a bare plan with fresh evidence, without the elections that cannot run."""
    checked: tuple[Checked, ...]
    """The checked elections, in the plan's order."""
    evidence: Mapping[TopicPartition, PartitionEvidence]
    """The evidence of each partition that exists, as it was read now."""

    @property
    def to_hold(self) -> tuple[Checked, ...]:
        """The elections that can still run."""
        return tuple(checked for checked in self.checked if checked.status.goes_on)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """The elections that do not run."""
        return tuple(
            self._skipped(checked) for checked in self.checked if not checked.status.goes_on
        )

    @property
    def fine(self) -> bool:
        """Whether every election of the plan can run, or has come true already."""
        return all(checked.status.fine for checked in self.checked)

    def targets(self) -> tuple[ElectionTarget, ...]:
        """What is to be elected, frozen on the evidence of now."""
        return tuple(
            target_of(self.evidence[checked.partition], checked.leader) for checked in self.to_hold
        )

    def _skipped(self, checked: Checked) -> Skipped:
        if checked.status is CheckStatus.ONLINE:
            state = self.evidence[checked.partition].state
            leads = "" if state.leader == checked.leader else f"led by b{state.leader}"
            return Skipped(
                checked.partition,
                checked.leader,
                RecoveryResult.ALREADY_ONLINE,
                leads,
                state.leader,
            )
        reason = f"{checked.reason}: {_CURES[checked.status]}"
        return Skipped(checked.partition, checked.leader, RecoveryResult.REFUSED, reason, None)


_CURES = {
    CheckStatus.CHANGED: "make the plan again",
    CheckStatus.DELETED: "leave it out of the plan",
    CheckStatus.REFUSED: "choose another leader",
}
"""What an operator does about an election that is refused."""


def appraise(plan: Plan, selection: Selection, assessments: Iterable[Assessment]) -> Appraisal:
    """Compare *plan*, ours or bare, with the partitions of *selection*.

    *assessments* judge those that are offline.
    """
    judged = tuple(assessments)
    records = plan.records
    then = {partition: records[partition].evidence for partition in records}
    evidence = {
        checked.partition: as_known(then.get(checked.partition), checked.evidence)
        for checked in judged
    }
    for state in selection.online:
        evidence[state.partition] = led_evidence(state)
    if plan.breakglass is not None:
        return Appraisal(plan, check(plan, evidence), evidence)
    snapshot = selection.snapshot
    adopted, dismissed = adopt(plan, judged, snapshot.cluster_id, snapshot.observed_at_ms)
    refused = {checked.partition: checked.reason for checked in dismissed}
    checked = (
        _first_look(partition, leader, evidence.get(partition), refused)
        for partition, leader in plan.leaders.items()
    )
    return Appraisal(adopted, tuple(checked), evidence)


def _first_look(
    partition: TopicPartition,
    leader: int,
    now: PartitionEvidence | None,
    refused: Mapping[TopicPartition, str],
) -> Checked:
    """An election of a bare plan, which nothing can have changed."""
    if now is None:
        return Checked(partition, leader, CheckStatus.DELETED, "there is no such partition")
    if not now.state.offline:
        return Checked(partition, leader, CheckStatus.ONLINE, f"b{now.state.leader} leads it")
    if partition in refused:
        return Checked(partition, leader, CheckStatus.REFUSED, refused[partition])
    return Checked(partition, leader, CheckStatus.NEW)
