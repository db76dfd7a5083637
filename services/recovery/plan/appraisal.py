"""A plan held against the present: which of its elections can go on, and on what evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from breakglass.services.model import PartitionEvidence, TopicPartition, TopicSettings, Unknown
from breakglass.services.recovery.evidence.contents import as_known
from breakglass.services.recovery.execution.prepare import target_of
from breakglass.services.recovery.execution.target import ElectionTarget, RecoveryResult
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.recovery.plan.check import Checked, CheckStatus, check
from breakglass.services.recovery.plan.document import Plan
from breakglass.services.recovery.plan.make import adopt
from breakglass.services.recovery.selection import Selection

_UNREAD = Unknown("not read, for the partition has a leader")
UNREAD_SETTINGS = TopicSettings(_UNREAD, _UNREAD, _UNREAD, _UNREAD)


@dataclass(frozen=True, slots=True)
class Skipped:
    """An election of a plan that is not held, as the outcome that it has already."""

    partition: TopicPartition
    designee: int
    result: RecoveryResult
    reason: str
    leader: int | None
    """Who leads, where somebody does."""

    @property
    def succeeded(self) -> bool:
        return self.result is RecoveryResult.ALREADY_ONLINE


@dataclass(frozen=True, slots=True)
class Appraisal:
    """Every election of a plan, and how it stands now."""

    plan: Plan
    """The plan itself; a bare one with the evidence just read, without what cannot be held."""
    checked: tuple[Checked, ...]
    """In the plan's order."""
    evidence: Mapping[TopicPartition, PartitionEvidence]
    """Of each partition that exists, as it was read now."""

    @property
    def to_hold(self) -> tuple[Checked, ...]:
        """The elections that go on."""
        return tuple(one for one in self.checked if one.status.goes_on)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """The elections that do not."""
        return tuple(self._skipped(one) for one in self.checked if not one.status.goes_on)

    @property
    def fine(self) -> bool:
        """Whether all of the plan can go on, or has come true already."""
        return all(one.status.fine for one in self.checked)

    def targets(self) -> tuple[ElectionTarget, ...]:
        """What is to be elected, frozen on the evidence of now."""
        return tuple(target_of(self.evidence[one.partition], one.leader) for one in self.to_hold)

    def _skipped(self, one: Checked) -> Skipped:
        if one.status is CheckStatus.ONLINE:
            state = self.evidence[one.partition].state
            leads = "" if state.leader == one.leader else f"led by b{state.leader}"
            return Skipped(
                one.partition, one.leader, RecoveryResult.ALREADY_ONLINE, leads, state.leader
            )
        reason = f"{one.reason}: {_CURES[one.status]}"
        return Skipped(one.partition, one.leader, RecoveryResult.REFUSED, reason, None)


_CURES = {
    CheckStatus.CHANGED: "make the plan again",
    CheckStatus.GONE: "leave it out of the plan",
    CheckStatus.REFUSED: "choose another leader",
}
"""What an operator does about an election that is refused."""


def appraise(plan: Plan, selection: Selection, assessments: Iterable[Assessment]) -> Appraisal:
    """Hold *plan*, ours or bare, against the partitions of *selection*.

    *assessments* judge those that are offline.
    """
    judged = tuple(assessments)
    held = plan.records
    then = {one: held[one].evidence for one in held}
    evidence = {one.partition: as_known(then.get(one.partition), one.evidence) for one in judged}
    for state in selection.online:
        evidence[state.partition] = PartitionEvidence(state, (), UNREAD_SETTINGS)
    if plan.breakglass is not None:
        return Appraisal(plan, check(plan, evidence), evidence)
    snapshot = selection.snapshot
    adopted, dismissed = adopt(plan, judged, snapshot.cluster_id, snapshot.observed_at_ms)
    refused = {one.partition: one.reason for one in dismissed}
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
