"""The thread of guarded elections: besides the act itself, what follows it and can be asked again.

What was elected is watched as it climbs, and unknown outcomes are looked up.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakglass.screens.elect.state import rows_of
from breakglass.screens.guard.worker import ActFrozen, GuardedWorker, GuardMessage
from breakglass.services.guard.act import ActEvent, Change, Ending, Frozen, GuardedRun
from breakglass.services.recovery.acts.elect import OutcomesReported, frozen_elections
from breakglass.services.recovery.acts.resume import Resumption
from breakglass.services.recovery.execution.target import PartitionOutcome
from breakglass.services.recovery.guarded.aftermath import look_after, watch_ladder
from breakglass.services.recovery.guarded.check_again import check_again, settled_by
from breakglass.services.recovery.guarded.subject import ElectionSubject

if TYPE_CHECKING:
    from breakglass.screens.elect.state import ElectionRow
    from breakglass.services.model import TopicPartition
    from breakglass.services.recovery.guarded.aftermath import Aftermath
    from breakglass.services.recovery.guarded.check_again import CheckedAgain


@dataclass(eq=False)
class SubjectFrozen(ActFrozen):
    """What is to be elected, with its price, and the *rows* that show it."""

    rows: tuple[ElectionRow, ...] = ()


@dataclass(eq=False)
class LadderMoved(GuardMessage):
    """Elected partitions stand on other rungs than before."""

    outcomes: tuple[PartitionOutcome, ...]


@dataclass(eq=False)
class AftermathFound(GuardMessage):
    """What the elections have left behind."""

    aftermath: Aftermath


@dataclass(eq=False)
class UnknownsAnswered(GuardMessage):
    """What the cluster says of steps whose outcome was unknown."""

    found: CheckedAgain
    settled: tuple[PartitionOutcome, ...]
    """Of those that were unknown: what came of them."""


LEFT_OUT = "left out by you"


@dataclass
class ElectionWorker(GuardedWorker[Any]):
    """Elections, or a journal that is resumed."""

    left_out: Collection[TopicPartition] = ()
    """By the operator, from the beginning."""
    _outcomes: list[PartitionOutcome] = field(default_factory=list, init=False)
    """Reported so far."""

    def show(self, frozen: Frozen[Any], changed: tuple[Change, ...] = ()) -> None:
        """Count what is to be elected, so that showing it takes no time, then report it."""
        if self.left_out:
            frozen = frozen_elections(frozen.plan.without(self.left_out, LEFT_OUT))
        rows = tuple(rows_of(subject_in(frozen).summed()))
        self.report(SubjectFrozen(self.number, frozen, changed, rows))

    def leave_out(self, frozen: Frozen[ElectionSubject]) -> None:
        """Report *frozen* without the elections that are left out."""
        self.guarded(lambda: self.show(frozen))

    def began(self, fresh: Frozen[Any]) -> None:
        """The watch need not alarm at the leaders that were agreed to."""
        targets = [election.target for election in subject_in(fresh).wanted]
        self.context.watch.agreed({target.partition: target.designee for target in targets})
        super().began(fresh)

    def hear(self, event: ActEvent) -> None:
        if isinstance(event, OutcomesReported):
            self._outcomes += event.outcomes
        super().hear(event)

    def follow(self, run: GuardedRun[Any], agreed: Frozen[Any], ending: Ending) -> None:  # noqa: ARG002
        """Look at what the elections left behind, and watch what was elected."""
        if self._outcomes:
            self.guarded(lambda: self._watch(subject_in(agreed), self._outcomes))

    def check_again(self, journal: Path, unknown: Sequence[PartitionOutcome]) -> None:
        """Ask the cluster what became of the *unknown* outcomes in *journal*."""
        self.guarded(lambda: self._check_again(journal, unknown))

    def _watch(self, subject: ElectionSubject, outcomes: Sequence[PartitionOutcome]) -> None:
        with self.context.reading() as client:
            found = look_after(client, outcomes, subject.wanted)
            self.report(AftermathFound(self.number, found))
            for moved in watch_ladder(client, outcomes, self.gone):
                self.report(LadderMoved(self.number, tuple(moved)))

    def _check_again(self, journal: Path, unknown: Sequence[PartitionOutcome]) -> None:
        with self.context.reading() as client:
            found = check_again(client, journal, folder=self.context.state_folder)
            settled = settled_by(found, unknown)
            self.report(UnknownsAnswered(self.number, found, tuple(settled)))
            for moved in watch_ladder(client, settled, self.gone):
                self.report(LadderMoved(self.number, tuple(moved)))


def subject_in(frozen: Frozen[Any]) -> ElectionSubject:
    """The elections that *frozen* is about."""
    plan: ElectionSubject | Resumption = frozen.plan
    return plan.subject if isinstance(plan, Resumption) else plan
