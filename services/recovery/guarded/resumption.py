"""A journal taken up again under guard: what is left is finished, or its orders are put back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from services.errors import EvidenceChanged
from services.guard.consent import ConsentGroup, require_phrases
from services.guard.journal import Journal, UnreadableJournal, list_journals, read
from services.guard.journal_view import JournalView
from services.kafka.election_client import ElectionClient
from services.recovery.execution.record import SUCCEEDED, UNDONE
from services.recovery.execution.routes import route_for
from services.recovery.execution.target import PartitionOutcome
from services.recovery.guarded.election import begun
from services.recovery.guarded.election_quote import Priced, groups_of, priced
from services.recovery.guarded.events import Armed, Finished, JournalOpened, OutcomesTold, Tell
from services.recovery.guarded.rescue_choice import RescueChoice
from services.recovery.guarded.rescuing import rescue_for, rescuer
from services.recovery.guarded.single_flight import SingleFlight
from services.recovery.recover import Recovery
from services.recovery.resume import JournalSurvey, Resume
from services.recovery.unfinished import Remains, consented
from services.session import Power


def open_journals(
    cluster_id: str, folder: Path | None = None
) -> tuple[list[JournalView], list[UnreadableJournal]]:
    """Elections of that cluster that are not done, newest first; and what cannot be read."""
    held = list_journals(cluster_id, folder)
    unreadable = [one for one in held if isinstance(one, UnreadableJournal)]
    views = [one for one in held if isinstance(one, JournalView)]
    undone = [one for one in views if one.plan and one.result not in (SUCCEEDED, UNDONE)]
    return undone, unreadable


@dataclass(frozen=True, slots=True)
class GuardedResume:
    """What *found* left is carried on, once what was not agreed to before has been."""

    power: Power
    found: JournalSurvey
    undo: bool = False
    """Put orders back, where nobody leads yet, in place of electing."""
    rescue: RescueChoice = field(default_factory=RescueChoice)
    stop: Callable[[], bool] = lambda: False
    """Asked between batches: true ends the run after what is under way."""
    state: Path | None = None
    """Where the lock is; None: the user's state folder."""
    _flight: SingleFlight = field(default_factory=SingleFlight, init=False)

    @property
    def remains(self) -> Remains:
        """What there is to do."""
        return self.found.remains if self.undo else self.found.to_finish

    @property
    def wanted(self) -> tuple[Priced, ...]:
        """The elections that are still to be held, on the evidence of now."""
        if self.undo:
            return ()
        evidence = self.found.evidence
        return tuple(
            priced(evidence[one.target.partition], one.target, one.gone)
            for one in self.remains.offline
        )

    @property
    def groups(self) -> tuple[ConsentGroup, ...]:
        """What the journal was not agreed to yet; empty where all of it was."""
        return () if consented(self.found.view) else groups_of(self.wanted)

    def run(self, phrases: Sequence[str], tell: Tell) -> tuple[PartitionOutcome, ...]:
        """Carry on; returns the outcomes, told batch by batch before.

        Raises:
            ConsentMissing: a phrase of `groups` is missing or differs.
            AlreadyRunning: this was run before, or somebody else changes this cluster from here.
            EvidenceChanged: the journal went on since it was surveyed.
            WrongCluster: the addresses lead to another cluster by now.
            Unreachable: no broker answers.
            StorageError: the journal cannot be written.
        """
        require_phrases(phrases, self.groups)
        self._flight.begin()
        journal, view = Journal.resume(self.found.view.path, self.state)
        with journal, self.power.elections(view.cluster_id) as client:
            if len(view.entries) != len(self.found.view.entries):
                raise EvidenceChanged(
                    f"journal {view.path} went on meanwhile: look again at what is left."
                )
            tell(Armed())
            elects = bool(self.wanted)
            for phrase in phrases:
                journal.consent(phrase, elects=elects)
            tell(JournalOpened(journal.path))
            outcomes: list[PartitionOutcome] = []
            resumed = Resume(self._recovery(client, journal, tell), self.found)
            for batch in resumed.undo() if self.undo else resumed.finish():
                outcomes += batch
                tell(OutcomesTold(batch))
            tell(Finished(read(journal.path).result))
        return tuple(outcomes)

    def _recovery(self, client: ElectionClient, journal: Journal, tell: Tell) -> Recovery:
        rescuing = rescuer(self.power.access, self.found.snapshot.cluster_id, self.stop)
        return Recovery(
            client,
            journal,
            route_for(self.found.native),
            rescue_for(self.rescue, rescuing, self.found.evidence, tell),
            stop=self.stop,
            begin=lambda batch: tell(begun(batch)),
        )
