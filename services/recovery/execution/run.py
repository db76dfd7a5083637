"""Runs an election batch by batch: look, journal, elect, confirm, put the order back."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from services.errors import BreakglassError, NoQuorum, StorageError, WrongCluster
from services.kafka.election_client import ElectionClient
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.retry import until
from services.model import ClusterSnapshot, TopicPartition, Unknown
from services.recovery.execution.attempt import Attempt, journalled
from services.recovery.execution.batches import batches
from services.recovery.execution.confirm import Observer
from services.recovery.execution.ladder import climb
from services.recovery.execution.limits import Limits
from services.recovery.execution.recheck import recheck, recheck_log
from services.recovery.execution.record import Record
from services.recovery.execution.restore_order import restore_orders
from services.recovery.execution.routes import Route
from services.recovery.execution.target import Outcome, Result, Target
from services.recovery.judgement.circumstances import quorum_lost

RETRY_SECONDS = 0.2
"""Pause before a transient failure is tried again; doubles each time."""

LONGEST_RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Execution:
    """Everything one run of elections works with."""

    client: ElectionClient
    observer: Observer
    """Looks through the client's own connections, at the cluster that is changed."""
    route: Route
    journal: Record
    limits: Limits = field(default_factory=Limits)
    stop: Callable[[], bool] = lambda: False
    """Asked between batches and before retries: true ends the run after what is under way."""
    pause: Callable[[float], None] = time.sleep
    begin: Callable[[Sequence[Target]], None] = lambda _: None
    """Told of each batch before anything is sent for it."""

    def run(self, targets: Sequence[Target]) -> Iterator[tuple[Outcome, ...]]:
        """Elect *targets*; yields the outcomes of each batch as it ends.

        Stops after a batch in which another replica was elected or an outcome is unknown;
        what was not attempted then is yielded last.
        """
        halted = ""
        waves = batches(targets)
        batch = next(waves, None)
        while batch is not None:
            halted = halted or ("stopped on request" if self.stop() else "")
            if halted:
                outcomes = self._noted(_not_attempted(batch, halted))
            else:
                outcomes = self._batch(batch)
                halted = why_to_halt(outcomes)
            yield outcomes
            batch = _after(waves, outcomes)

    def _batch(self, batch: Sequence[Target]) -> tuple[Outcome, ...]:
        """Elect *batch*, trying transient failures again, each time after a new look."""
        self.begin(batch)
        outcomes: dict[TopicPartition, Outcome] = {}
        reordered: set[TopicPartition] = set()
        left, wait = list(batch), RETRY_SECONDS
        for tries in range(self.limits.retries + 1):
            if tries:
                if self.stop():
                    break
                self.pause(wait)
                wait = min(wait * 2, LONGEST_RETRY_SECONDS)
            stopped = self._look(left)
            outcomes.update(stopped)
            attempt = Attempt(self.observer, self.route, self.journal, self.limits)
            attempt.make([one for one in left if one.partition not in stopped])
            outcomes.update(attempt.outcomes)
            reordered |= attempt.reordered
            left = [one for one in left if one.partition in attempt.transient]
            if not left:
                break
        told = tuple(outcomes[one.partition] for one in batch)
        return self._finish(told, reordered)

    def _finish(
        self, outcomes: tuple[Outcome, ...], reordered: set[TopicPartition]
    ) -> tuple[Outcome, ...]:
        """Put orders back, say where that was not done, and see how far partitions have come."""
        if self.route.reorders:
            deadline = Deadline.after(self.limits.read)
            outcomes = restore_orders(self.client, self.observer, self.journal, outcomes, deadline)
        outcomes = tuple(
            replace(one, order_restored=False)
            if one.partition in reordered and one.order_restored is None
            else one
            for one in outcomes
        )
        return climb(self.observer, outcomes, Deadline.after(self.limits.ladder))

    def _look(self, targets: Sequence[Target]) -> dict[TopicPartition, Outcome]:
        """The last look before sending: those of *targets* that are stopped here.

        The designees' logs are asked first and the metadata last, because it decides more.
        """
        ends = self.observer.log_ends(targets)
        try:
            snapshot = self._read(targets)
        except BreakglassError as error:
            refused = tuple(Outcome(one, Result.REFUSED, str(error)) for one in targets)
            return {one.partition: one for one in self._noted(refused)}
        found = _rechecked(targets, snapshot, ends)
        self._noted(tuple(found.values()))
        return found

    def _read(self, targets: Sequence[Target]) -> ClusterSnapshot:
        """The cluster now, without which nothing is sent.

        Raises:
            NoQuorum: no controller leads, so no election can work (R20).
            WrongCluster: the address leads to another cluster by now.
            Unreachable: no broker answers.
        """
        only = {one.partition for one in targets}
        topics = sorted({one.topic for one in only})
        deadline, half = Deadline.after(self.limits.read), self.limits.read / 2
        # The broker asked first may hang: half of the time is left for another one.
        snapshot = until(
            deadline, lambda: self.observer.client.snapshot(deadline.sooner(half), topics, only)
        )
        if snapshot.cluster_id != self.journal.cluster_id:
            raise WrongCluster(
                f"this address leads to cluster {snapshot.cluster_id} now, not to "
                f"{self.journal.cluster_id}: check tunnels and names, then plan again"
            )
        lost = quorum_lost(snapshot.quorum)
        if lost:
            raise NoQuorum(f"{lost}: bring controllers back first")
        return snapshot

    def _noted(self, unsent: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
        """Write down what was decided without sending anything."""
        if unsent:
            try:
                self.journal.note(
                    "nothing was sent for these", partitions=[_named(one) for one in unsent]
                )
            except StorageError:
                # Nothing was sent, so nothing is owed to the journal.
                return unsent
        return unsent


def why_to_halt(outcomes: Sequence[Outcome]) -> str:
    """The reason to stop after these *outcomes*, or nothing (R4)."""
    for one in outcomes:
        if one.result is Result.ELECTED_ANOTHER:
            return (
                f"stopped because {one.partition} elected b{one.leader}, not "
                f"b{one.target.designee}: keep broker {one.target.designee} down, for what it "
                f"holds beyond b{one.leader} would be cut off, then plan again"
            )
    for one in outcomes:
        if one.result is Result.UNKNOWN:
            return f"stopped because the outcome of {one.partition} is unknown"
    if outcomes and all(one.result is Result.FAILED for one in outcomes):
        return f"stopped because {outcomes[0].partition} failed: {outcomes[0].reason}"
    return ""


def _after(
    waves: Generator[tuple[Target, ...], bool | None, None], outcomes: Sequence[Outcome]
) -> tuple[Target, ...] | None:
    """The next batch; larger only where an election has proved the way (R4)."""
    try:
        return waves.send(any(one.result is Result.ELECTED for one in outcomes))
    except StopIteration:
        return None


def _rechecked(
    targets: Sequence[Target],
    snapshot: ClusterSnapshot,
    ends: Mapping[TopicPartition, int | Unknown],
) -> dict[TopicPartition, Outcome]:
    states = {one.partition: one for one in snapshot.partitions}
    looks = (
        recheck(one, states.get(one.partition), snapshot.description)
        or recheck_log(one, ends[one.partition])
        for one in targets
    )
    return {one.partition: one for one in looks if one is not None}


def _named(outcome: Outcome) -> dict[str, Any]:
    return {
        "topic": outcome.partition.topic,
        "partition": outcome.partition.partition,
        **journalled(outcome),
    }


def _not_attempted(batch: Sequence[Target], reason: str) -> tuple[Outcome, ...]:
    return tuple(Outcome(one, Result.NOT_ATTEMPTED, reason) for one in batch)
