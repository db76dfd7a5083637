"""The act of electing leaders: rescue what each election cuts off, elect, and confirm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import ClassVar

from breakglass.services import patience
from breakglass.services.errors import BreakglassError, OutcomeUnknown
from breakglass.services.guard.act import (
    PARTLY_FAILED,
    SUCCEEDED,
    Act,
    ActEvent,
    Armed,
    Change,
    Ending,
    Front,
    Frozen,
    Means,
    Tell,
    Underway,
)
from breakglass.services.guard.consent import ConsentPhrase, Price, consent_phrase, implied_groups
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.election_client import PARTITIONS_A_REQUEST, ElectionClient, Reply
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.kip1275 import ElectionType
from breakglass.services.model import PartitionEvidence, PartitionState, TopicPartition
from breakglass.services.recovery.execution.confirm import Observer
from breakglass.services.recovery.execution.run import Recovery, Rescue
from breakglass.services.recovery.execution.steps import (
    PREFERRED,
    ExecutionLimits,
    RouteChoice,
    route_for,
)
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
)
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import ElectionSubject, planned, reread
from breakglass.services.recovery.rescue.rescue import JournalledRescue, Rescuer, rescuer
from breakglass.services.recovery.rescue.spans import RescuedPartition, RescueProgress
from breakglass.services.recovery.triage import Triage


@dataclass(frozen=True, slots=True)
class RescueProgressed(ActEvent):
    """The records that the elections will cut off are being saved; reported now and then."""

    progress: RescueProgress


@dataclass(frozen=True, slots=True)
class RescueEnded(ActEvent):
    """A result for each partition of which something was to be saved."""

    results: tuple[RescuedPartition, ...]


@dataclass(frozen=True, slots=True)
class BatchBegun(ActEvent):
    """The last look at these partitions begins, then their election."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OutcomesReported(ActEvent):
    """The outcomes of a batch, or of partitions for which nothing was sent."""

    outcomes: tuple[PartitionOutcome, ...]


def preferred_targets(states: Sequence[PartitionState]) -> tuple[ElectionTarget, ...]:
    """A target for each partition whose leader is not the first of its assignment."""
    return tuple(
        ElectionTarget(
            partition=state.partition,
            topic_id=state.topic_id,
            designee=state.assignment[0],
            order=state.assignment,
            assignment=state.assignment,
            leader_epoch=state.leader_epoch,
            log_end=None,
            min_insync_replicas=None,
            live=state.assignment[1:],
        )
        for state in states
        if state.leader != state.assignment[0]
    )


def _held(
    client: ElectionClient, observer: Observer, journal: Journal, batch: Sequence[ElectionTarget]
) -> tuple[PartitionOutcome, ...]:
    """Elect partitions that still have a leader; others could lose records."""
    try:
        states = observer.states(batch, Deadline.after(patience.REQUEST))
    except BreakglassError as error:
        return _all(batch, RecoveryResult.REFUSED, str(error))
    led = {state.partition for state in states.values() if state.leader is not None}
    leaderless = [target for target in batch if target.partition not in led]
    refused = _all(leaderless, RecoveryResult.REFUSED, "it has lost its leader: run triage")
    ready = [target for target in batch if target.partition in led]
    if not ready:
        return refused
    request = journal.request(
        PREFERRED, {target.partition: {"designee": target.designee} for target in ready}
    )
    outcomes = _preferred(client, observer, ready)
    journal.outcome(
        request,
        {
            outcome.partition: {"result": outcome.result.value, "reason": outcome.reason}
            for outcome in outcomes
        },
    )
    return refused + outcomes


def _preferred(
    client: ElectionClient, observer: Observer, batch: Sequence[ElectionTarget]
) -> tuple[PartitionOutcome, ...]:
    partitions = [target.partition for target in batch]
    try:
        deadline = Deadline.after(patience.ELECTION)
        replies = client.elect(ElectionType.PREFERRED, partitions, deadline)
    except OutcomeUnknown as error:
        return _all(batch, RecoveryResult.UNKNOWN, str(error))
    except BreakglassError as error:
        return _all(batch, RecoveryResult.FAILED, str(error))
    sent = [
        target
        for target in batch
        if (reply := replies[target.partition]).accepted or reply.unsettled
    ]
    confirmed = observer.confirm(sent, Deadline.after(patience.REQUEST), until_designee_leads=True)
    return tuple(_outcome(target, replies[target.partition], confirmed) for target in batch)


def _outcome(
    target: ElectionTarget, reply: Reply, confirmed: Mapping[TopicPartition, PartitionOutcome]
) -> PartitionOutcome:
    if target.partition in confirmed:
        seen = confirmed[target.partition]
        another = reply.unsettled and seen.result is RecoveryResult.ELECTED_ANOTHER
        return replace(seen, result=RecoveryResult.UNKNOWN, reason=str(reply)) if another else seen
    if reply.already_online:
        return PartitionOutcome(
            target, RecoveryResult.ALREADY_ONLINE, "led by its preferred replica"
        )
    return PartitionOutcome(target, RecoveryResult.FAILED, str(reply))


def _all(
    targets: Sequence[ElectionTarget], result: RecoveryResult, reason: str
) -> tuple[PartitionOutcome, ...]:
    return tuple(PartitionOutcome(target, result, reason) for target in targets)


Targets = tuple[ElectionTarget, ...]


@dataclass(frozen=True, slots=True)
class ElectPreferred(Act[Targets]):
    """Elect the preferred replica where another replica leads."""

    doing: ClassVar[str] = "a preferred election"
    topics: tuple[str, ...]
    partitions: frozenset[TopicPartition]
    """Partitions without a leader are left out."""

    def freeze(self, front: Front) -> Frozen[Targets]:
        with front.reading() as client:
            snapshot = client.snapshot(Deadline.after(patience.SNAPSHOT), self.topics)
        online = [state for state in snapshot.partitions if not state.offline]
        targets = preferred_targets(
            [state for state in online if state.partition in self.partitions]
        )
        partitions = [target.partition for target in targets]
        phrase = consent_phrase(partitions, Price(0)) if targets else ""
        return Frozen(
            snapshot.cluster_id,
            (ConsentPhrase(phrase),) if targets else (),
            tuple((str(target.partition), f"elects b{target.designee}") for target in targets),
            tuple(map(str, partitions)),
            plan=targets,
        )

    def carry_out(self, front: Front, means: Means, frozen: Frozen[Targets]) -> Ending:
        """Elect them; the ending's value is the list of `PartitionOutcome`."""
        done: list[PartitionOutcome] = []
        with means.cluster.elections(frozen.cluster_id) as client:
            front.tell(Armed())
            observer, rest = Observer(client.reading()), iter(frozen.plan)
            while batch := tuple(islice(rest, PARTITIONS_A_REQUEST)):
                if front.stop():
                    held = _all(batch, RecoveryResult.NOT_ATTEMPTED, "stopped on request")
                else:
                    held = _held(client, observer, means.journal, batch)
                done += held
                front.tell(OutcomesReported(held))
        whole = all(outcome.succeeded for outcome in done)
        return Ending(SUCCEEDED if whole else PARTLY_FAILED, value=done)


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


def rescue_for(
    choice: RescueChoice,
    rescuing: Rescuer,
    evidence: Mapping[TopicPartition, PartitionEvidence],
    tell: Tell,
) -> Rescue | None:
    """The rescue before elections agreed to on *evidence*; None when *choice* is without."""
    if choice.without:
        return None
    return JournalledRescue(
        replace(rescuing, progress=lambda progress: tell(RescueProgressed(progress))),
        evidence,
        choice.folder,
        lambda results: tell(RescueEnded(tuple(results))),
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
