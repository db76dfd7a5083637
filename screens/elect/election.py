"""An election as an undertaking: picked partitions, or a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from screens.context import Known
from screens.elect.guarded_action import READ_SECONDS, Fresh, Stop, Undertaking, Waits, waiting_of
from services.errors import BreakglassError
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.native_rpc import STOCK, NativeRpc
from services.model import PartitionEvidence, TopicPartition
from services.recovery.evidence.contents import ContentsReading
from services.recovery.execution.routes import route_for
from services.recovery.execution.target import PartitionOutcome
from services.recovery.guarded.election import GuardedElection
from services.recovery.guarded.events import Tell
from services.recovery.guarded.reread import require_same_cluster, reread
from services.recovery.guarded.rescue_choice import RescueChoice
from services.recovery.guarded.subject import ElectionSubject, subject_of, subject_of_plan
from services.recovery.judgement.verdict import assess
from services.recovery.selection import Selection, select
from services.recovery.triage import SNAPSHOT_SECONDS, Triage, judge

if TYPE_CHECKING:
    from services.incident.incident import Incident
    from services.kafka.read_client import ReadClient
    from services.recovery.judgement.assessment import Assessment
    from services.recovery.plan.document import Plan
    from services.session import Power, ReadAccess


@dataclass
class ElectionUndertaking(Undertaking):
    """The recommended replicas of *partitions*, or the elections of a *plan*."""

    access: ReadAccess
    known: Known
    """Whose last truth is frozen."""
    partitions: tuple[TopicPartition, ...] = ()
    plan: Plan | None = None
    state: Path | None = None
    doing: str = field(default="electing leaders", init=False)

    def freeze(self, client: ReadClient, waits: Waits, stop: Stop) -> ElectionSubject:
        """What is known of them is frozen; what nobody has read yet is read."""
        if self.plan is not None:
            return self._of_plan(client, self.plan, waits, stop)
        incident = self.known.incident
        if incident is not None and all(map(partial(_judged, incident), self.partitions)):
            cluster_id, native = incident.snapshot.cluster_id, incident.native
            known = self._verified(client, incident, stop)
            return subject_of(cluster_id, self.partitions, known, native)
        selection = select(client, self.partitions)
        cluster_id = selection.snapshot.cluster_id
        if incident is not None:
            require_same_cluster(incident.snapshot.cluster_id, cluster_id)
        gone = () if incident is None else tuple(incident.circumstances.ruled_out)
        judged, native = self._judge(client, selection, waits, stop, gone)
        return subject_of(cluster_id, self.partitions, judged, native)

    def _verified(self, client: ReadClient, incident: Incident, stop: Stop) -> list[Assessment]:
        """What is known of them, with the contents of those whose turn the watch left open."""
        known = list(incident.assessments(self.partitions))
        reading = ContentsReading(client, self.access.contents, stop=stop)
        before = [one.evidence for one in known]
        if any(reading.due(before)):
            with suppress(BreakglassError):  # Who is not reached is told beside each replica.
                client.describe(Deadline.after(SNAPSHOT_SECONDS))
        now = reading.read(before)
        return [
            one if evidence is one.evidence else assess(evidence, incident.circumstances)
            for one, evidence in zip(known, now, strict=True)
        ]

    def _of_plan(self, client: ReadClient, plan: Plan, waits: Waits, stop: Stop) -> ElectionSubject:
        from services.recovery.plan.appraisal import appraise
        from services.recovery.plan.check import require_cluster

        cluster_id = client.describe(Deadline.after(SNAPSHOT_SECONDS)).cluster_id
        require_cluster(plan, cluster_id, "the plan")
        selection = select(client, tuple(plan.leaders))
        judged, native = self._judge(client, selection, waits, stop)
        return subject_of_plan(appraise(plan, selection, judged), cluster_id, native)

    def _judge(
        self,
        client: ReadClient,
        selection: Selection,
        waits: Waits,
        stop: Stop,
        gone: Sequence[int] = (),
    ) -> tuple[Iterable[Assessment], NativeRpc]:
        """The judgements of what is offline in *selection*, on evidence read now."""
        found: Triage | None = None
        if selection.offline:
            choice = self.access.native_rpc
            snapshot, offline = selection.snapshot, selection.offline
            for found in judge(
                client,
                snapshot,
                offline,
                READ_SECONDS,
                choice,
                gone,
                stop,
                contents=self.access.contents,
                chosen=self._chosen,
            ):
                waits(waiting_of(found))
        return ((), STOCK) if found is None else (found.assessments, found.native)

    def _chosen(self, evidence: PartitionEvidence) -> int | None:
        return None if self.plan is None else self.plan.leaders.get(evidence.partition)

    def again(
        self, client: ReadClient, subject: ElectionSubject, waits: Waits, stop: Stop
    ) -> Fresh:
        found = reread(
            client,
            subject.cluster_id,
            subject.wanted,
            READ_SECONDS,
            self.access.native_rpc,
            told=lambda triage: waits(waiting_of(triage)),
            stop=stop,
        )
        changed = {one.partition: one.reason for one in found.changed}
        possible = {one.partition for one in found.wanted}
        gone = [one for one in subject.wanted if one.partition not in possible]
        kept = subject.without([one.partition for one in gone], "it cannot be elected any more")
        return Fresh(replace(kept, wanted=found.wanted, native=found.native), changed)

    def carry_out(
        self,
        power: Power,
        subject: ElectionSubject,
        phrases: Sequence[str],
        rescue: RescueChoice,
        tell: Tell,
        stop: Stop,
    ) -> tuple[PartitionOutcome, ...]:
        election = GuardedElection(
            power,
            subject.cluster_id,
            subject.wanted,
            route_for(subject.native),
            subject.digest,
            rescue,
            stop=stop,
            state=self.state,
        )
        return election.run(phrases, tell)


def _judged(incident: Incident, partition: TopicPartition) -> bool:
    """Whether nothing is to be read of *partition*: it was judged, or is not offline any more."""
    row = incident.row(partition)
    return row is None or row.judged is not None
