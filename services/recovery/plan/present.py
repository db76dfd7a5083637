"""What the cluster says now of the partitions of a plan, and the plan renewed by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.services.model import ClusterSnapshot, PartitionEvidence, TopicPartition
from breakglass.services.recovery.judgement.replica_choice import refusal
from breakglass.services.recovery.plan.appraisal import UNREAD_SETTINGS
from breakglass.services.recovery.plan.check import Checked, CheckStatus, check_one, require_cluster
from breakglass.services.recovery.plan.document import ChosenBy, Plan, PlanEntry, record_of
from breakglass.services.recovery.plan.recommendation import recommended

if TYPE_CHECKING:
    from breakglass.services.recovery.judgement.assessment import Assessment
    from breakglass.services.recovery.plan.document import PartitionRecord


@dataclass(frozen=True, slots=True)
class PresentEvidence:
    """Evidence of now, for the partitions of one plan."""

    cluster_id: str
    read_at_ms: int
    assessments: Mapping[TopicPartition, Assessment]
    """Of those that are offline and were read."""
    online: Mapping[TopicPartition, PartitionEvidence]
    """Of those that have a leader."""
    unheard: frozenset[TopicPartition]
    """Offline, and not read yet."""

    def evidence(self, partition: TopicPartition) -> PartitionEvidence | None:
        """What is known of *partition*; None: there is no such partition."""
        judged = self.assessments.get(partition)
        return judged.evidence if judged is not None else self.online.get(partition)


def present_of(
    plan: Plan, snapshot: ClusterSnapshot, assessments: Iterable[Assessment], read_at_ms: int
) -> PresentEvidence:
    """What *snapshot* and *assessments*, made of it, say of the partitions of *plan*.

    Raises:
        WrongCluster: the plan was made for another cluster.
    """
    require_cluster(plan, snapshot.cluster_id, "the plan")
    wanted = {*plan.leaders, *plan.records}
    judged = {one.partition: one for one in assessments if one.partition in wanted}
    states = [one for one in snapshot.partitions if one.partition in wanted]
    online = {
        one.partition: PartitionEvidence(one, (), UNREAD_SETTINGS)
        for one in states
        if not one.offline
    }
    unheard = frozenset(
        [one.partition for one in states if one.offline and one.partition not in judged]
    )
    return PresentEvidence(snapshot.cluster_id, read_at_ms, judged, online, unheard)


def check_present(plan: Plan, present: PresentEvidence) -> dict[TopicPartition, Checked]:
    """Each election of *plan*, which has evidence, against *present*; not those unheard."""
    return {
        partition: check_one(plan.records[partition], leader, present.evidence(partition))
        for partition, leader in plan.leaders.items()
        if partition not in present.unheard
    }


def renew(plan: Plan, present: PresentEvidence) -> Plan:
    """*plan*, which has evidence, resting on that of *present*.

    Who was elected by rank is elected by the rank of now. A choice by hand or by rule is kept
    where that replica can still be elected. What was left out stays out, for nobody asked for
    its election. What is online or gone is left out, and what was not heard stays as it is.
    """
    evidence = plan.breakglass
    if evidence is None:
        raise ValueError("a bare plan is adopted and not renewed")
    leaders: dict[TopicPartition, int] = {}
    records: list[PartitionRecord] = []
    for record in evidence.records:
        before = plan.leaders.get(record.partition)
        renewed, leader = _renewed(record, before, present)
        records.append(renewed)
        if leader is not None:
            leaders[record.partition] = leader
    entries = [
        PlanEntry(topic=one.topic, number=one.partition, leader=leader)
        for one, leader in leaders.items()
    ]
    changes = {"records": tuple(records), "made_at_ms": present.read_at_ms, "digest": ""}
    return Plan(entries=tuple(entries), breakglass=evidence.model_copy(update=changes))


def _renewed(
    record: PartitionRecord, leader: int | None, present: PresentEvidence
) -> tuple[PartitionRecord, int | None]:
    partition = record.partition
    if partition in present.unheard:
        return record, leader
    found = present.assessments.get(partition)
    if found is None:
        return record.decided(None, _away(partition, present)), None
    if leader is None:
        return record_of(found, left_out=record.left_out), None
    fresh = record_of(found, record.chosen_by)
    if record.chosen_by is ChosenBy.RANK:
        best = recommended(fresh)
        reason = found.barred or found.reasons[0]
        return (fresh, best) if best is not None else (fresh.decided(None, reason), None)
    barred = refusal(found.evidence, leader)
    return (fresh.decided(None, barred), None) if barred else (fresh, leader)


def _away(partition: TopicPartition, present: PresentEvidence) -> str:
    online = present.online.get(partition)
    if online is None:
        return "there is no such partition any more"
    return f"b{online.state.leader} leads it by now"


def tally(checked: Iterable[Checked]) -> dict[CheckStatus, int]:
    """How many elections stand how, in the order of `CheckStatus`."""
    found = list(checked)
    counts = {status: sum(one.status is status for one in found) for status in CheckStatus}
    return {status: number for status, number in counts.items() if number}
