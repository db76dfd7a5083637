"""Unknown outcomes looked up again: the cluster is only read, and the journal completed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from breakglass.services import patience
from breakglass.services.errors import WrongCluster
from breakglass.services.guard.journal import UNKNOWN, Journal, JournalView, read
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.confirm import Observer
from breakglass.services.recovery.execution.steps import PARTLY_FAILED, SUCCEEDED, ExecutionLimits
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult, Rung
from breakglass.services.recovery.timeline.ending import REPLICA_ADDED, endings_of
from breakglass.services.recovery.unfinished import (
    Remains,
    confirmations,
    remains,
    settlements,
    topics_of,
)
from breakglass.services.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """What the cluster says of a step whose outcome was unknown."""

    step: str
    partition: TopicPartition
    result: str
    """``unknown`` where the cluster still gives no answer."""
    reason: str = ""

    @property
    def settled(self) -> bool:
        return self.result != UNKNOWN


@dataclass(frozen=True, slots=True)
class CheckedAgain:
    """A journal after its unknown outcomes were looked up."""

    view: JournalView
    answers: tuple[StepAnswer, ...]
    """An answer for each step and partition that was unsettled, oldest first."""
    remains: Remains
    """What is left to be done, by a resume."""

    @property
    def unsettled(self) -> tuple[StepAnswer, ...]:
        """What is still unknown."""
        return tuple(answer for answer in self.answers if not answer.settled)


def check_again(
    client: ReadClient,
    path: Path,
    limits: ExecutionLimits | None = None,
    folder: Path | None = None,
) -> CheckedAgain:
    """Ask the cluster what became of the unsettled steps in the journal at *path*.

    Nothing is elected and no order is put back: that is a resume's. A journal of settled steps
    is left as it is. *folder* is the state folder, whose lock keeps other processes out.

    Raises:
        WrongCluster: the journal is of another cluster.
        AlreadyRunning: somebody changes this cluster from here.
        Unreachable: no broker serves the cluster's metadata.
        MalformedInput, UnsupportedSchema, StorageError: the journal cannot be read or written.
    """
    before = read(path)
    snapshot = _snapshot(client, before)
    if not before.unsettled:
        return CheckedAgain(before, (), remains(before, snapshot))
    journal, view = Journal.resume(path, folder)
    with journal:
        states = {state.partition: state for state in snapshot.partitions}
        for request, items in settlements(view, states):
            journal.outcome(request, items)
        led = [led_partition.target for led_partition in remains(view, snapshot).led]
        deadline = Deadline.after((limits or ExecutionLimits()).confirmation)
        confirmed = Observer(client).confirm(led, deadline) if led else {}
        for request, items in confirmations(view, confirmed):
            journal.outcome(request, items)
        # The end is written down again: done where nothing is left and nothing unknown. An
        # election that made another replica lead is never a success, though nothing is left of
        # it. Without a plan, a killed process's journal does not say what it had still to do.
        now = read(journal.path)
        found = remains(now, snapshot)
        left = bool(found.offline or found.led or found.left or now.unsettled)
        results = {ending.result for ending in endings_of(now)}
        if now.plan is None:
            left = (
                left
                or before.result is None
                or results not in ({RecoveryResult.ELECTED}, {REPLICA_ADDED})
            )
        if not left and RecoveryResult.ELECTED_ANOTHER not in results:
            journal.finish(SUCCEEDED)
        elif not left or before.result is not None:
            journal.finish(PARTLY_FAILED)
        after = read(path)
    return CheckedAgain(after, tuple(_answers(before, after)), remains(after, snapshot))


def settled_by(
    found: CheckedAgain, unknown: Iterable[PartitionOutcome]
) -> tuple[PartitionOutcome, ...]:
    """The outcomes among *unknown* that *found* settles."""
    settled = {answer.partition: answer for answer in found.answers if answer.settled}
    return tuple(
        _settled(outcome, settled[outcome.partition])
        for outcome in unknown
        if outcome.partition in settled
    )


def _settled(outcome: PartitionOutcome, answer: StepAnswer) -> PartitionOutcome:
    if answer.result == RecoveryResult.ELECTED:
        designee = outcome.target.designee
        return replace(
            outcome, result=RecoveryResult.ELECTED, reason="", leader=designee, rung=Rung.SERVING
        )
    reason = f"when the cluster was asked again: {answer.result}"
    return replace(outcome, result=RecoveryResult.FAILED, reason=reason, rung=None)


def _snapshot(client: ReadClient, view: JournalView) -> ClusterSnapshot:
    deadline = Deadline.after(patience.SNAPSHOT)
    found = client.describe(deadline).cluster_id
    if found != view.cluster_id:
        raise WrongCluster(
            f"journal {view.path} is of cluster {view.cluster_id} and this is {found}: connect to "
            "the cluster that it was written for"
        )
    return client.snapshot(deadline, topics_of(view))


def _answers(before: JournalView, after: JournalView) -> Iterator[StepAnswer]:
    now = {step.request.seq: step for step in after.steps}
    for step in before.unsettled:
        outcomes = now[step.request.seq].outcomes
        for partition in step.unsettled:
            if partition in outcomes:
                outcome = outcomes[partition]
                reason = str(outcome.details.get("reason", ""))
                yield StepAnswer(step.name, partition, outcome.result, reason)
            else:
                yield StepAnswer(step.name, partition, UNKNOWN, "the cluster does not say")
