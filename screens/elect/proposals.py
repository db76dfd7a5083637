"""What is proposed for election: picked partitions, by what the watch knows of them, or a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from breakglass.screens.context import Known
from breakglass.services.errors import BreakglassError
from breakglass.services.guard.act import Front, Underway
from breakglass.services.kafka.cluster.describe_cluster import require_same_cluster
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.native_rpc import STOCK, NativeRpc
from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.acts.elect import READ_SECONDS, waiting_for
from breakglass.services.recovery.evidence.contents import ContentsReading
from breakglass.services.recovery.guarded.subject import (
    ElectionSubject,
    subject_of,
    subject_of_plan,
)
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.selection import Selection, select
from breakglass.services.recovery.triage import SNAPSHOT_SECONDS, Triage, judge

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
                client.describe(Deadline.after(SNAPSHOT_SECONDS))
        now = reading.read(before)
        return [
            one if evidence is one.evidence else assess(evidence, incident.circumstances)
            for one, evidence in zip(known, now, strict=True)
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
            cluster_id = client.describe(Deadline.after(SNAPSHOT_SECONDS)).cluster_id
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
            READ_SECONDS,
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
