"""The two guarded screens: an election, and a journal taken up again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from breakglass.screens.context import Context, Known
from breakglass.screens.elect import wording
from breakglass.screens.elect.page import GuardedPage
from breakglass.screens.elect.state import Phase
from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.guard.act import Front, Underway
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.native_rpc import STOCK, NativeRpc
from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.acts.elect import Elect, waiting_for
from breakglass.services.recovery.acts.resume import ResumeJournal
from breakglass.services.recovery.evidence.contents import ContentsReading
from breakglass.services.recovery.guarded.subject import (
    ElectionSubject,
    subject_of,
    subject_of_plan,
)
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.triage import Selection, Triage, judge, select
from breakglass.themes.roles import Role

if TYPE_CHECKING:
    from breakglass.services.incident.incident import Incident
    from breakglass.services.kafka.read_client import ReadClient
    from breakglass.services.recovery.judgement.assessment import Assessment
    from breakglass.services.recovery.plan.document import Plan


@dataclass(frozen=True)
class PickedPartitions:
    """Proposes the recommended replica of each of *partitions*."""

    known: Known
    """What the watch read last; only what it has not read yet is read."""
    partitions: tuple[TopicPartition, ...]

    def __call__(self, front: Front) -> ElectionSubject:
        """The elections, with their prices."""
        incident = self.known.incident
        with front.reading() as client:
            if incident is not None and all(map(partial(_judged, incident), self.partitions)):
                cluster_id, native = incident.snapshot.cluster_id, incident.native
                known = self._verified(client, incident, front)
                return subject_of(cluster_id, self.partitions, known, native)
            selection = select(client, self.partitions)
            cluster_id = selection.snapshot.cluster_id
            if incident is not None:
                require_same_cluster(incident.snapshot.cluster_id, cluster_id)
            gone = () if incident is None else tuple(incident.circumstances.ruled_out)
            judged, native = judgements(client, selection, front, gone)
        return subject_of(cluster_id, self.partitions, judged, native)

    def _verified(self, client: ReadClient, incident: Incident, front: Front) -> list[Assessment]:
        """What is known of them, with the contents that the watch has not read yet."""
        known = list(incident.assessments(self.partitions))
        reading = ContentsReading(client, front.cluster.contents, stop=front.stop)
        before = [assessment.evidence for assessment in known]
        if any(reading.due(before)):
            with suppress(BreakglassError):  # Beside each replica stands who was not reached.
                client.describe(Deadline.after(patience.SNAPSHOT))
        now = reading.read(before)
        return [
            row if evidence is row.evidence else assess(evidence, incident.circumstances)
            for row, evidence in zip(known, now, strict=True)
        ]


@dataclass(frozen=True)
class PlannedElections:
    """Proposes the elections of *plan*, on evidence read now."""

    plan: Plan

    def __call__(self, front: Front) -> ElectionSubject:
        """The elections, with their prices."""
        from breakglass.services.recovery.plan.appraisal import appraise
        from breakglass.services.recovery.plan.check import require_cluster

        leaders = self.plan.leaders
        with front.reading() as client:
            cluster_id = client.describe(Deadline.after(patience.SNAPSHOT)).cluster_id
            require_cluster(self.plan, cluster_id, "the plan")
            selection = select(client, tuple(leaders))
            judged, native = judgements(
                client, selection, front, chosen=lambda evidence: leaders.get(evidence.partition)
            )
        return subject_of_plan(appraise(self.plan, selection, judged), cluster_id, native)


def judgements(
    client: ReadClient,
    selection: Selection,
    front: Front,
    gone: Sequence[int] = (),
    chosen: Callable[[PartitionEvidence], int | None] = lambda _: None,
) -> tuple[Iterable[Assessment], NativeRpc]:
    """The judgements of what is offline in *selection*, on evidence read now."""
    found: Triage | None = None
    if selection.offline:
        access = front.cluster
        for found in judge(
            client,
            selection.snapshot,
            selection.offline,
            patience.LOGS,
            access.native_rpc,
            gone,
            front.stop,
            contents=access.contents,
            chosen=chosen,
        ):
            front.tell(Underway(waiting_for(found)))
    return ((), STOCK) if found is None else (found.assessments, found.native)


def _judged(incident: Incident, partition: TopicPartition) -> bool:
    """Whether nothing is to be read of *partition*: it was judged, or is not offline any more."""
    row = incident.row(partition)
    return row is None or row.judged is not None


class ElectScreen(GuardedPage):
    """The elections of picked partitions, each its recommended replica, or of a plan."""

    TITLE = "Elect"
    ABOUT = (
        "Who is elected, and what each election loses. Type the phrase to confirm. Everything is "
        "read again before anything is sent, and the records to be cut off are saved first."
    )

    def __init__(
        self,
        context: Context,
        partitions: Sequence[TopicPartition] = (),
        plan: Plan | None = None,
    ) -> None:
        find = PickedPartitions(context.known, tuple(partitions))
        super().__init__(context, Elect(find if plan is None else PlannedElections(plan)))


class ResumeScreen(GuardedPage):
    """What an unfinished journal left: carried on, or its orders put back."""

    TITLE = "Resume"
    ABOUT = (
        "Where a journal stopped, and what is left to do. Elections already made are confirmed "
        "and their assignment order is put back; the rest is elected at the price already agreed "
        "to."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+y", "undo", "Finish/undo", tooltip="Put assignment orders back; elect nobody"
        ),
    ]

    def __init__(self, context: Context, journal: Path) -> None:
        super().__init__(context, ResumeJournal(journal, asks_again=True))

    def action_undo(self) -> None:
        assert isinstance(self.act, ResumeJournal)
        self.state.undo = not self.state.undo
        self.act = replace(self.act, undo=self.state.undo)
        self._freeze()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "undo":
            return self.state.phase is Phase.REVIEW
        return super().check_action(action, parameters)

    def _review(self, note: str = "", role: Role | None = None) -> None:
        if self._frozen is not None:
            view = self._frozen.plan.survey.view
            self.state.intro = wording.journal_told(view.path, view.who, view.result)
        super()._review(note, role)
