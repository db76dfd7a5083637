"""Electing leaders: each designee with its price, rescued first, elected, confirmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

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
from breakglass.services.recovery.execution.limits import ExecutionLimits
from breakglass.services.recovery.execution.routes import RouteChoice, route_for
from breakglass.services.recovery.execution.run import Recovery
from breakglass.services.recovery.execution.target import PartitionOutcome
from breakglass.services.recovery.guarded.election_quote import planned
from breakglass.services.recovery.guarded.reread import reread
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.rescuing import rescue_for, rescuer
from breakglass.services.recovery.guarded.subject import ElectionSubject
from breakglass.services.recovery.triage import Triage

READ_SECONDS = 30.0
"""A broker must describe its log within this time to count."""


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
        """Read the partitions again; an election that rests on something else is a change."""
        subject = agreed.plan
        with front.reading() as client:
            found = reread(
                client,
                subject.cluster_id,
                subject.wanted,
                READ_SECONDS,
                front.cluster.native_rpc,
                told=lambda triage: front.tell(Underway(waiting_for(triage))),
                stop=front.stop,
            )
        possible = {election.partition for election in found.wanted}
        gone = [one.partition for one in subject.wanted if one.partition not in possible]
        kept = subject.without(gone, "it cannot be elected any more")
        fresh = replace(kept, wanted=found.wanted, native=found.native)
        changed = tuple(Change(str(one.partition), one.reason) for one in found.changed)
        return frozen_elections(fresh), changed

    def announce(
        self,
        journal: Journal,
        frozen: Frozen[ElectionSubject],
        phrases: Sequence[str],
        *,
        implied: bool,
    ) -> None:
        """Write down the plan, with all that it takes to finish it elsewhere, and the consents."""
        subject = frozen.plan
        if implied:
            phrases = [group.phrase for group in implied_groups(subject.groups)]
        items = {election.partition: planned(election) for election in subject.wanted}
        journal.plan(subject.digest, "", items, consents=len(phrases))
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
    """*subject* as it is agreed to."""
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
    """What rescues and elects, with the journal and the power that were given."""
    rescuing = rescuer(front.cluster, means.journal.cluster_id, front.stop)
    return Recovery(
        client,
        means.journal,
        route,
        rescue_for(choice, rescuing, evidence, front.tell),
        limits or ExecutionLimits(),
        front.stop,
        begin=lambda batch: front.tell(BatchBegun(tuple(one.partition for one in batch))),
    )


def ended(done: Sequence[PartitionOutcome], *, stopped: bool) -> Ending:
    """How elections ended; those that were stopped can be resumed."""
    whole = all(outcome.complete for outcome in done)
    if stopped and not whole:
        return Ending(None, value=list(done))
    return Ending(SUCCEEDED if whole else PARTLY_FAILED, value=list(done))


def waiting_for(found: Triage) -> str:
    """The brokers that *found* still waits for; empty where it waits for none."""
    evidence = found.evidence
    return "; ".join(evidence.silent[broker] for broker in sorted(evidence.awaited))
