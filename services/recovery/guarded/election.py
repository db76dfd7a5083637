"""One guarded election: consent, journal, arms, run. It prints nothing and asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from services.errors import StorageError
from services.guard.consent import ConsentGroup, implied_groups, require_phrases
from services.guard.journal import Journal
from services.kafka.election_client import ElectionClient
from services.recovery.execution.limits import ExecutionLimits
from services.recovery.execution.record import PARTLY_FAILED, SUCCEEDED
from services.recovery.execution.routes import RouteChoice
from services.recovery.execution.target import ElectionTarget, PartitionOutcome
from services.recovery.guarded.election_quote import Priced, groups_of, planned
from services.recovery.guarded.events import (
    Armed,
    BatchBegun,
    Finished,
    JournalOpened,
    OutcomesTold,
    Tell,
)
from services.recovery.guarded.rescue_choice import RescueChoice
from services.recovery.guarded.rescuing import rescue_for, rescuer
from services.recovery.guarded.single_flight import SingleFlight
from services.recovery.recover import Recovery, Rescue
from services.session import Power


@dataclass(frozen=True, slots=True)
class GuardedElection:
    """The elections of *wanted*, once everything that they cost has been agreed to.

    What follows the consent happens in the thread that calls `run`, which may be any.
    """

    power: Power
    cluster_id: str
    wanted: tuple[Priced, ...]
    """At least one."""
    choose_route: RouteChoice
    digest: str = ""
    """Of the plan that they come from; empty without one."""
    rescue: RescueChoice = field(default_factory=RescueChoice)
    limits: ExecutionLimits = field(default_factory=ExecutionLimits)
    stop: Callable[[], bool] = lambda: False
    """Asked between batches: true ends the run after what is under way."""
    state: Path | None = None
    """Where journals and locks are; None: the user's state folder."""
    _flight: SingleFlight = field(default_factory=SingleFlight, init=False)

    @property
    def groups(self) -> tuple[ConsentGroup, ...]:
        """What has to be agreed to, one phrase each."""
        return groups_of(self.wanted)

    def run(
        self, phrases: Sequence[str], tell: Tell, *, implied: bool = False
    ) -> tuple[PartitionOutcome, ...]:
        """Elect them; returns one outcome for each, told batch by batch before.

        *phrases* is what the operator gave, one for each of `groups`; *implied*: by a command
        whose own name and flag are the consent.

        Raises:
            ConsentMissing: a phrase is missing or differs.
            AlreadyRunning: this was run before, or somebody else changes this cluster from here.
            WrongCluster: the addresses lead to another cluster by now.
            Unreachable: no broker answers.
            StorageError: the journal cannot be written.
        """
        require_phrases(phrases, self.groups)
        self._flight.begin()
        with (
            Journal.open(self.cluster_id, self.state) as journal,
            self.power.elections(self.cluster_id) as client,
        ):
            tell(Armed())
            self._announce(journal, phrases, implied=implied)
            tell(JournalOpened(journal.path))
            outcomes: list[PartitionOutcome] = []
            recovery = self._recovery(client, journal, tell)
            for batch in recovery.run([one.target for one in self.wanted]):
                outcomes += batch
                tell(OutcomesTold(batch))
            tell(Finished(self._finish(journal, outcomes)))
        return tuple(outcomes)

    def _recovery(self, client: ElectionClient, journal: Journal, tell: Tell) -> Recovery:
        return Recovery(
            client,
            journal,
            self.choose_route,
            self._rescue(tell),
            self.limits,
            self.stop,
            lambda batch: tell(begun(batch)),
        )

    def _announce(self, journal: Journal, phrases: Sequence[str], *, implied: bool) -> None:
        items = {one.partition: planned(one) for one in self.wanted}
        if implied:
            phrases = [one.phrase for one in implied_groups(self.groups)]
        journal.plan(self.digest, "", items, consents=len(phrases))
        for phrase in phrases:
            journal.consent(phrase, implied=implied)

    def _rescue(self, tell: Tell) -> Rescue | None:
        evidence = {one.partition: one.evidence for one in self.wanted}
        rescuing = rescuer(self.power.access, self.cluster_id, self.stop)
        return rescue_for(self.rescue, rescuing, evidence, tell)

    def _finish(self, journal: Journal, outcomes: Sequence[PartitionOutcome]) -> str | None:
        """Write down how it ended.

        A run that was stopped, or whose journal cannot be written, stays unfinished.
        """
        whole = all(one.complete for one in outcomes)
        if self.stop() and not whole:
            return None
        result = SUCCEEDED if whole else PARTLY_FAILED
        try:
            journal.finish(result)
        except StorageError:
            # What came of each partition is told all the same; the journal can be resumed.
            return None
        return result


def begun(batch: Sequence[ElectionTarget]) -> BatchBegun:
    """That *batch* is about to be elected."""
    return BatchBegun(tuple(one.partition for one in batch))
