"""What the batches so far mean for those to come: who is still elected, and why others wait.

KIP-1275 asks for as many completed elections as possible, and R4 for a stop once another replica
was elected. So a partition that failed or was refused keeps nobody else, and an unknown outcome
keeps only the partitions that its cause can touch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
)
from breakglass.services.recovery.judgement.inputs import named

LOST_IN_A_ROW = 2
"""The number of consecutive batches without an answer after which the run stops."""


@dataclass(slots=True)
class Course:
    """What is known so far. For one thread; shared by all parts of one run."""

    halted: str = ""
    """Why nothing more is elected; empty while the run continues."""
    silent: dict[int, str] = field(default_factory=dict)
    """Elected brokers that did not confirm; the reason keeps other partitions from them."""
    begun: bool = False
    """An election was held, or may have been."""
    _lost: int = 0
    """Consecutive batches of which an answer was lost."""

    def halt(self, reason: str) -> None:
        """Elect nothing more; the first reason stays."""
        self.halted = self.halted or reason

    def why_not(self, target: ElectionTarget) -> str:
        """Why *target* is not attempted; empty where it may be."""
        return self.halted or self.silent.get(target.designee, "")

    def learn(
        self, outcomes: Sequence[PartitionOutcome], unanswering: Callable[[], Sequence[int]] = tuple
    ) -> None:
        """Take in the outcomes of a batch; *unanswering* finds brokers that do not answer now."""
        for outcome in outcomes:
            if outcome.result in (RecoveryResult.ELECTED, RecoveryResult.UNKNOWN):
                self.begun = True
            if outcome.result is RecoveryResult.ELECTED_ANOTHER:
                designee, leader = outcome.target.designee, outcome.leader
                self.halt(
                    f"stopped because {outcome.partition} elected b{leader}, not b{designee}: keep "
                    f"broker {designee} down, for what it holds beyond b{leader} would be cut off, "
                    "then plan again"
                )
            elif outcome.result is RecoveryResult.UNKNOWN and _elected(outcome):
                self.silent.setdefault(
                    outcome.target.designee,
                    f"b{outcome.target.designee} was elected for {outcome.partition} and does not "
                    f"answer: check broker {outcome.target.designee}, then resume",
                )
        if _unanswered(outcomes):
            self._lost += 1
            if self._lost >= LOST_IN_A_ROW:
                silent = unanswering()
                first = _unanswered(outcomes)[0]
                cure = "check the controllers, then resume"
                if silent:
                    state = "answers or is fenced" if len(silent) == 1 else "answer or are fenced"
                    cure = f"wait until {named(silent)} {state}, then resume"
                self.halt(
                    f"stopped because the outcome of {first.partition} is unknown, and of one "
                    f"before it: {cure}"
                )
        elif any(outcome.result is RecoveryResult.ELECTED for outcome in outcomes):
            self._lost = 0


def _unanswered(outcomes: Sequence[PartitionOutcome]) -> tuple[PartitionOutcome, ...]:
    """Those of *outcomes* that may or may not have happened, because no leader was seen."""
    return tuple(
        outcome
        for outcome in outcomes
        if outcome.result is RecoveryResult.UNKNOWN and not _elected(outcome)
    )


def _elected(outcome: PartitionOutcome) -> bool:
    return outcome.leader == outcome.target.designee
