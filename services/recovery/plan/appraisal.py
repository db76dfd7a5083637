"""A plan compared with the present: which of its elections can run, and on what evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from breakglass.services.model import PartitionEvidence, TopicPartition, TopicSettings, Unknown
from breakglass.services.recovery.evidence.contents import as_known
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    RecoveryResult,
    Skipped,
    target_of,
)
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.recovery.plan.check import Checked, CheckStatus, check
from breakglass.services.recovery.plan.document import Plan
from breakglass.services.recovery.plan.make import adopt
from breakglass.services.recovery.triage import Selection

_UNREAD = Unknown("not read, for the partition has a leader")
UNREAD_SETTINGS = TopicSettings(_UNREAD, _UNREAD, _UNREAD, _UNREAD)


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
    CheckStatus.GONE: "leave it out of the plan",
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
        evidence[state.partition] = PartitionEvidence(state, (), UNREAD_SETTINGS)
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
        return Checked(partition, leader, CheckStatus.GONE, "there is no such partition")
    if not now.state.offline:
        return Checked(partition, leader, CheckStatus.ONLINE, f"b{now.state.leader} leads it")
    if partition in refused:
        return Checked(partition, leader, CheckStatus.REFUSED, refused[partition])
    return Checked(partition, leader, CheckStatus.NEW)
