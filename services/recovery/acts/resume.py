"""The act of resuming a journal: its remaining elections are finished, or its orders put back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from breakglass.services import patience
from breakglass.services.errors import EvidenceChanged
from breakglass.services.guard.act import Act, Armed, Change, Ending, Front, Frozen, Means
from breakglass.services.guard.consent import ConsentPhrase, Price, consent_phrase
from breakglass.services.guard.journal import (
    EntryKind,
    Journal,
    JournalView,
    UnreadableJournal,
    list_journals,
    read,
)
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.acts.elect import OutcomesReported, recovery_of
from breakglass.services.recovery.execution.steps import SUCCEEDED, UNDONE, route_for
from breakglass.services.recovery.execution.target import PartitionOutcome
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import ElectionSubject, subject_of_journal
from breakglass.services.recovery.ledger.entries import READ_AGAIN, written_holdings
from breakglass.services.recovery.unfinished import (
    JournalSurvey,
    Remains,
    Resume,
    consented,
    ended_as,
    survey,
)


def open_journals(
    cluster_id: str, folder: Path | None = None
) -> tuple[list[JournalView], list[UnreadableJournal]]:
    """Journals with unfinished elections of that cluster, newest first, and unreadable journals."""
    found = list_journals(cluster_id, folder)
    unreadable = [journal for journal in found if isinstance(journal, UnreadableJournal)]
    views = [journal for journal in found if isinstance(journal, JournalView)]
    undone = [view for view in views if view.plan and view.result not in (SUCCEEDED, UNDONE)]
    return undone, unreadable


@dataclass(frozen=True, slots=True)
class Resumption:
    """The elections that a journal leaves to be done."""

    survey: JournalSurvey
    subject: ElectionSubject
    undo: bool = False

    @property
    def remains(self) -> Remains:
        """The partitions, by what remains to be done."""
        return self.survey.remains if self.undo else self.survey.to_finish


@dataclass(frozen=True)
class ResumeJournal(Act[Resumption]):
    """Finish the elections that *journal* left; with *undo*, put its orders back."""

    doing: ClassVar[str] = "resuming a recovery"
    journal: Path
    undo: bool = False
    """Put orders back where no replica leads yet, instead of electing."""
    rescue: RescueChoice = field(default_factory=RescueChoice)
    asks_again: bool = False
    """Ask for consent even if the journal has the consent."""
    seconds: float = patience.LOGS
    """For brokers to describe their logs."""

    def freeze(self, front: Front) -> Frozen[Resumption]:
        view = read(self.journal)
        with front.reading() as client:
            found = survey(client, view, self.seconds, front.cluster.native_rpc)
        subject = subject_of_journal(found, undo=self.undo)
        return Frozen(
            view.cluster_id,
            tuple(self._asked(found, subject)),
            targets=tuple(str(election.partition) for election in subject.wanted),
            plan=Resumption(found, subject, self.undo),
        )

    def look_again(
        self, front: Front, agreed: Frozen[Resumption]
    ) -> tuple[Frozen[Resumption], tuple[Change, ...]]:
        fresh = self.freeze(front)
        changed = _differences(agreed.plan.subject, fresh.plan.subject)
        return fresh, tuple(Change(str(partition), reason) for partition, reason in changed)

    def open_journal(self, agreed: Frozen[Resumption], folder: Path | None) -> Journal:
        """The same journal, unchanged since it was surveyed.

        Raises:
            EvidenceChanged: another process has written to it.
        """
        journal, view = Journal.resume(self.journal, folder)
        if len(view.entries) != len(agreed.plan.survey.view.entries):
            journal.close()
            raise EvidenceChanged(
                f"journal {view.path} was written to since: look again at what is left."
            )
        return journal

    def announce(
        self,
        journal: Journal,
        frozen: Frozen[Resumption],
        phrases: Sequence[str],
        *,
        implied: bool,  # noqa: ARG002
    ) -> None:
        wanted = frozen.plan.subject.wanted
        elects = bool(wanted)
        if wanted:
            # A replica that was unread at the time of consent may have answered by now.
            items = {priced.partition: written_holdings(priced.evidence) for priced in wanted}
            journal.record(EntryKind.NOTE, items, text=READ_AGAIN)
        for phrase in phrases:
            journal.consent(phrase, elects=elects)

    def carry_out(self, front: Front, means: Means, frozen: Frozen[Resumption]) -> Ending:
        """Confirm, elect or undo; the ending's value is the list of `PartitionOutcome`."""
        found = frozen.plan.survey
        done: list[PartitionOutcome] = []
        with means.cluster.elections(frozen.cluster_id) as client:
            front.tell(Armed())
            route = route_for(found.native)
            recovery = recovery_of(front, means, client, route, self.rescue, found.evidence)
            resumed = Resume(recovery, found)
            for batch in resumed.undo() if self.undo else resumed.finish():
                done += batch
                front.tell(OutcomesReported(batch))
        result = ended_as(frozen.plan.remains, done, undone=self.undo)
        return Ending(result, value=done)

    def _asked(self, found: JournalSurvey, subject: ElectionSubject) -> Iterator[ConsentPhrase]:
        if consented(found.view) and not self.asks_again:
            return
        elections = [group.asked for group in subject.groups]
        yield from elections
        led = [target.partition for target in subject.led]
        if self.asks_again and led and not elections:
            phrase = consent_phrase(led, Price(0))
            name = phrase.rpartition(" lose ")[0]
            yield ConsentPhrase(f"undo {name}" if self.undo else phrase)


def _differences(
    before: ElectionSubject, now: ElectionSubject
) -> Iterator[tuple[TopicPartition, str]]:
    """What has changed since it was agreed to, and how."""
    stakes = {election.partition: election.stake for election in now.wanted}
    led = {target.partition for target in now.led}
    left = {choice.partition: choice.reason for choice in now.left}
    for election in before.wanted:
        partition, agreed = election.partition, election.stake
        stake = stakes.pop(partition, None)
        if stake is None:
            yield partition, left.get(partition, "it has a leader now")
        elif stake.price != agreed.price:
            yield partition, f"it lost {agreed.price} and would lose {stake.price}"
        elif not set(stake.abandons) <= set(agreed.abandons):
            more = ", ".join(f"b{broker}" for broker in stake.abandons)
            yield partition, f"it would abandon {more}"
    for target in before.led:
        if target.partition in stakes:
            stakes.pop(target.partition)
            yield target.partition, "it has no leader again"
        elif target.partition not in led:
            yield target.partition, left.get(target.partition, "its leader changed")
    for partition in stakes:
        yield partition, "it has no leader again"
