"""Which partitions a recovery elects and which it leaves, with the reason. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.prepare import target_of
from breakglass.services.recovery.execution.target import ElectionTarget
from breakglass.services.recovery.judgement.assessment import Assessment
from breakglass.services.recovery.triage import Triage


@dataclass(frozen=True, slots=True)
class Left:
    """A partition that is not elected automatically."""

    partition: TopicPartition
    reason: str


@dataclass(frozen=True, slots=True)
class TargetChoice:
    """What to elect, and what is left to the operator."""

    targets: tuple[ElectionTarget, ...]
    left: tuple[Left, ...]

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """All that was decided about."""
        elected = (one.partition for one in self.targets)
        return frozenset((*elected, *(one.partition for one in self.left)))


def recommended(found: Triage, without: Collection[TopicPartition] = ()) -> TargetChoice:
    """Elect the recommended replica of every partition whose evidence is complete (R15).

    Partitions of *without* have been dealt with. While brokers may still answer, partitions
    with replicas on them are in neither list, nor are those whose contents are still to be read.
    """
    complete = {one.partition for one in found.evidence.complete} - found.contents_due
    ready = [
        one
        for one in found.assessments
        if one.partition in complete and one.partition not in without
    ]
    return TargetChoice(
        targets=tuple(_target(one) for one in ready if one.automatable),
        left=tuple(_left(one) for one in ready if not one.automatable),
    )


def _target(assessment: Assessment) -> ElectionTarget:
    if assessment.designee is None:
        raise ValueError(f"{assessment.partition} has no designee")
    return target_of(assessment.evidence, assessment.designee, assessment.ranking)


def _left(assessment: Assessment) -> Left:
    reasons = assessment.barriers or assessment.reasons
    return Left(assessment.partition, f"{assessment.verdict}: {'; '.join(reasons)}")
