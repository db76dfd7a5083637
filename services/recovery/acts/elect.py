"""The act of electing leaders: rescue what each election cuts off, elect, and confirm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from breakglass.services import patience
from breakglass.services.guard.act import (
    PARTLY_FAILED,
    SUCCEEDED,
    Act,
    Armed,
    Change,
    Ending,
    Front,
    Frozen,
    Means,
    Underway,
)
from breakglass.services.guard.consent import implied_groups
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.election_client import ElectionClient
from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.acts.events import BatchBegun, OutcomesReported
from breakglass.services.recovery.execution.batches import ExecutionLimits
from breakglass.services.recovery.execution.routes import RouteChoice, route_for
from breakglass.services.recovery.execution.run import Recovery
from breakglass.services.recovery.execution.target import PartitionOutcome
from breakglass.services.recovery.guarded.election_quote import planned
from breakglass.services.recovery.guarded.reread import reread
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.rescuing import rescue_for, rescuer
from breakglass.services.recovery.guarded.subject import ElectionSubject
from breakglass.services.recovery.triage import Triage


@dataclass(frozen=True)
class Elect(Act[ElectionSubject]):
    """Elect what *find* proposes."""

    doing: ClassVar[str] = "electing leaders"
    find: Callable[[Front], ElectionSubject]
    """Reads the evidence, and prices the elections."""
    choose_route: RouteChoice | None = None
    """None: the route that the cluster offers."""
    rescue: RescueChoice = field(default_factory=RescueChoice)
    limits: ExecutionLimits = field(default_factory=ExecutionLimits)

    def freeze(self, front: Front) -> Frozen[ElectionSubject]:
        return frozen_elections(self.find(front))

    def look_again(
        self, front: Front, agreed: Frozen[ElectionSubject]
    ) -> tuple[Frozen[ElectionSubject], tuple[Change, ...]]:
        """Read the partitions again; an election whose evidence differs is a change."""
        subject = agreed.plan
        with front.reading() as client:
            found = reread(
                client,
                subject.cluster_id,
                subject.wanted,
                patience.LOGS,
                front.cluster.native_rpc,
                report=lambda triage: front.tell(Underway(waiting_for(triage))),
                stop=front.stop,
            )
        possible = {election.partition for election in found.wanted}
        gone = [quoted.partition for quoted in subject.wanted if quoted.partition not in possible]
        kept = subject.without(gone, "it cannot be elected any more")
        fresh = replace(kept, wanted=found.wanted, native=found.native)
        changed = tuple(Change(str(change.partition), change.reason) for change in found.changed)
        return frozen_elections(fresh), changed

    def announce(
        self,
        journal: Journal,
        frozen: Frozen[ElectionSubject],
        phrases: Sequence[str],
        *,
        implied: bool,
    ) -> None:
        """Journal the consents, and the plan with all that another process needs to finish it."""
        subject = frozen.plan
        if implied:
            phrases = [group.phrase for group in implied_groups(subject.groups)]
        items = {election.partition: planned(election) for election in subject.wanted}
        left = [
            {
                "topic": left.partition.topic,
                "partition": left.partition.partition,
                "reason": left.reason,
            }
            for left in subject.left
        ]
        journal.plan(
            subject.digest,
            "",
            items,
            consents=len(phrases),
            left=left,
            approved_by=subject.approved_by or (),
        )
        for phrase in phrases:
            journal.consent(phrase, implied=implied)

    def carry_out(self, front: Front, means: Means, frozen: Frozen[ElectionSubject]) -> Ending:
        """Elect them; the ending's value is the list of `PartitionOutcome`."""
        subject = frozen.plan
        done: list[PartitionOutcome] = []
        with means.cluster.elections(subject.cluster_id) as client:
            front.tell(Armed())
            route = self.choose_route or route_for(subject.native)
            evidence = {election.partition: election.evidence for election in subject.wanted}
            recovery = recovery_of(
                front, means, client, route, self.rescue, evidence, limits=self.limits
            )
            for batch in recovery.run([election.target for election in subject.wanted]):
                done += batch
                front.tell(OutcomesReported(batch))
        return ended(done, stopped=front.stop())


def frozen_elections(subject: ElectionSubject) -> Frozen[ElectionSubject]:
    """*subject* in the form in which the operator agrees to it."""
    return Frozen(
        subject.cluster_id,
        tuple(group.asked for group in subject.groups),
        targets=tuple(str(election.partition) for election in subject.wanted),
        plan=subject,
    )


def recovery_of(
    front: Front,
    means: Means,
    client: ElectionClient,
    route: RouteChoice,
    choice: RescueChoice,
    evidence: Mapping[TopicPartition, PartitionEvidence],
    limits: ExecutionLimits | None = None,
) -> Recovery:
    """The recovery that rescues and elects, with *journal* and the given power.

    *evidence* is what was agreed to; replicas that it lacks are asked again.
    """
    rescuing = rescuer(front.cluster, means.journal.cluster_id, front.stop)
    return Recovery(
        client,
        means.journal,
        route,
        rescue_for(choice, rescuing, evidence, front.tell),
        limits or ExecutionLimits(),
        front.stop,
        begin=lambda batch: front.tell(BatchBegun(tuple(target.partition for target in batch))),
        evidence=evidence,
    )


def ended(done: Sequence[PartitionOutcome], *, stopped: bool) -> Ending:
    """How the elections ended; elections that were stopped can be resumed."""
    whole = all(outcome.complete for outcome in done)
    if stopped and not whole:
        return Ending(None, value=list(done))
    return Ending(SUCCEEDED if whole else PARTLY_FAILED, value=list(done))


def waiting_for(found: Triage) -> str:
    """The brokers that *found* still waits for; empty if it waits for none."""
    evidence = found.evidence
    return "; ".join(evidence.silent[broker] for broker in sorted(evidence.awaited))
