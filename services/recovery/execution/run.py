"""Runs an election batch by batch: recheck, journal, elect, confirm, put the order back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from services.errors import BreakglassError, NoQuorum, OutcomeUnknown
from services.kafka.deadline import Deadline
from services.kafka.election_client import ElectionClient, Reply
from services.kafka.retry import until
from services.model import ClusterSnapshot, TopicPartition, known
from services.recovery.execution.batches import batches
from services.recovery.execution.confirm import Observer
from services.recovery.execution.ladder import climb
from services.recovery.execution.recheck import recheck, recheck_log
from services.recovery.execution.record import Record, described
from services.recovery.execution.restore_order import restore_orders
from services.recovery.execution.routes import Replies, Route
from services.recovery.execution.target import Outcome, Result, Target

RETRY_SECONDS = 0.2
"""Pause before a transient failure is tried again; doubles each time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how often an execution tries. Seconds."""

    read: float = 10.0
    election: float = 30.0
    """One request; past it the outcome is unknown."""
    confirmation: float = 10.0
    ladder: float = 0.0
    """How long to wait for partitions to become readable; 0 looks once."""
    retries: int = 3
    """KIP-1275's --recovery-election-attempts."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Everything one run of elections works with."""

    client: ElectionClient
    observer: Observer
    route: Route
    journal: Record
    limits: Limits = field(default_factory=Limits)
    stop: Callable[[], bool] = lambda: False
    """Asked between batches: true ends the run after the batch under way."""
    pause: Callable[[float], None] = time.sleep

    def run(self, targets: Sequence[Target]) -> Iterator[tuple[Outcome, ...]]:
        """Elect *targets*; yields the outcomes of each batch as it ends.

        Stops after a batch in which another replica was elected or an outcome is unknown;
        what was not attempted then is yielded last.
        """
        halted = ""
        for batch in batches(targets):
            halted = halted or ("stopped on request" if self.stop() else "")
            if halted:
                yield self._noted(_not_attempted(batch, halted))
                continue
            outcomes = self._batch(batch)
            yield outcomes
            halted = why_to_halt(outcomes)

    def _batch(self, batch: Sequence[Target]) -> tuple[Outcome, ...]:
        try:
            snapshot = self._read(batch)
        except BreakglassError as error:
            return self._noted(_all(batch, Result.REFUSED, str(error)))
        stopped = self._recheck(batch, snapshot)
        self._noted(tuple(stopped.values()))
        ready = [one for one in batch if one.partition not in stopped]
        elected = self._elect(ready) if ready else {}
        outcomes = tuple(stopped.get(t.partition) or elected[t.partition] for t in batch)
        if self.route.reorders:
            outcomes = restore_orders(
                self.client, self.observer, self.journal, outcomes,
                Deadline.after(self.limits.read),
            )  # fmt: skip
        return climb(self.observer, outcomes, Deadline.after(self.limits.ladder))

    def _read(self, batch: Sequence[Target]) -> ClusterSnapshot:
        """The cluster now, without which nothing is sent.

        Raises:
            NoQuorum: no controller leads, so no election can work (R20).
            Unreachable: no broker answers.
        """
        topics = sorted({one.partition.topic for one in batch})
        deadline, half = Deadline.after(self.limits.read), self.limits.read / 2
        # The broker asked first may hang: half of the time is left for another one.
        snapshot = until(
            deadline, lambda: self.observer.client.snapshot(deadline.sooner(half), topics)
        )
        if known(snapshot.quorum) and snapshot.quorum.leader is None:
            raise NoQuorum("the controller quorum has no leader: bring controllers back first")
        return snapshot

    def _recheck(
        self, batch: Sequence[Target], snapshot: ClusterSnapshot
    ) -> dict[TopicPartition, Outcome]:
        """Those of *batch* that are stopped here: by the metadata, then by the designee's log."""
        stopped = _recheck_states(batch, snapshot)
        ready = [one for one in batch if one.partition not in stopped]
        ends = self.observer.log_ends(ready)
        looks = ((one, recheck_log(one, ends[one.partition])) for one in ready)
        stopped.update({one.partition: outcome for one, outcome in looks if outcome is not None})
        return stopped

    def _elect(self, ready: Sequence[Target]) -> dict[TopicPartition, Outcome]:
        """Elect and confirm; transient failures are tried again, nothing else is."""
        outcomes: dict[TopicPartition, Outcome] = {}
        left, wait = list(ready), RETRY_SECONDS
        for attempt in range(self.limits.retries + 1):
            if attempt:
                self.pause(wait)
                wait *= 2
            results, transient = self._attempt(left)
            outcomes.update(results)
            left = [one for one in left if one.partition in transient]
            if not left:
                break
        return outcomes

    def _attempt(
        self, targets: Sequence[Target]
    ) -> tuple[dict[TopicPartition, Outcome], frozenset[TopicPartition]]:
        """The route's steps once: every partition's outcome, and those worth another try."""
        outcomes: dict[TopicPartition, Outcome] = {}
        transient: set[TopicPartition] = set()
        left = list(targets)
        for step in self.route.steps:
            request = self._announce(step.name, left)
            try:
                replies = step.send(left, Deadline.after(self.limits.election))
            except OutcomeUnknown as error:
                reasons = dict.fromkeys((one.partition for one in left), str(error))
                outcomes.update(self._settle(request, self._after_silence(left, reasons)))
                return outcomes, frozenset()
            except BreakglassError as error:
                outcomes.update(self._settle(request, _all(left, Result.FAILED, str(error))))
                unsent = {one.partition for one in left if error.retriable}
                return outcomes, frozenset(transient | unsent)
            last = step is self.route.steps[-1]
            lost = [one for one in left if replies[one.partition].unsettled]
            held, left = _divide(left, replies)
            outcomes.update(self._settle(request, held, () if last else left))
            transient |= {one.partition for one in held if replies[one.partition].transient}
            if lost:
                reasons = {one.partition: _unsettled(replies[one.partition]) for one in lost}
                outcomes.update(self._settle(request, self._after_silence(lost, reasons)))
            if not left:
                return outcomes, frozenset(transient)
        elected = self._confirm(left, replies)
        outcomes.update(self._settle(request, elected))
        return outcomes, frozenset(transient)

    def _confirm(self, targets: Sequence[Target], replies: Replies) -> tuple[Outcome, ...]:
        confirmed = self.observer.confirm(targets, Deadline.after(self.limits.confirmation))
        return tuple(
            self._already_led(confirmed[one.partition], replies[one.partition]) for one in targets
        )

    def _after_silence(
        self, targets: Sequence[Target], reasons: Mapping[TopicPartition, str]
    ) -> tuple[Outcome, ...]:
        """The answer was lost: what the brokers say now decides, else it stays unknown."""
        confirmed = self.observer.confirm(targets, Deadline.after(self.limits.confirmation))
        return tuple(
            replace(one, reason=reasons[one.partition]) if one.leader is None else one
            for one in confirmed.values()
        )

    def _already_led(self, outcome: Outcome, reply: Reply) -> Outcome:
        """A designated election changes nothing that is online; a reorder may have elected."""
        another = outcome.result is Result.ELECTED_ANOTHER
        if another and reply.already_online and not self.route.reorders:
            led = f"led by b{outcome.leader}"
            return replace(outcome, result=Result.ALREADY_ONLINE, reason=led)
        return outcome

    def _announce(self, step: str, targets: Sequence[Target]) -> int:
        """Write down what is about to be sent, with what it takes to undo it."""
        return self.journal.request(step, {one.partition: described(one) for one in targets})

    def _settle(
        self, request: int, outcomes: Sequence[Outcome], accepted: Sequence[Target] = ()
    ) -> dict[TopicPartition, Outcome]:
        """Write down what became of a request; *accepted* goes on to the next step."""
        items = {one.partition: _journalled(one) for one in outcomes}
        items.update({one.partition: {"result": "accepted"} for one in accepted})
        if items:
            self.journal.outcome(request, items)
        return {one.partition: one for one in outcomes}

    def _noted(self, unsent: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
        """Write down what was decided without sending anything."""
        if unsent:
            self.journal.note(
                "nothing was sent for these", partitions=[_named(one) for one in unsent]
            )
        return unsent


def _divide(
    targets: Sequence[Target], replies: Replies
) -> tuple[tuple[Outcome, ...], list[Target]]:
    """Failed ones as outcomes, and those that were accepted or had a leader already."""
    failed = tuple(
        Outcome(one, Result.FAILED, str(replies[one.partition]))
        for one in targets
        if not _went_through(replies[one.partition]) and not replies[one.partition].unsettled
    )
    return failed, [one for one in targets if _went_through(replies[one.partition])]


def _went_through(reply: Reply) -> bool:
    return reply.accepted or reply.already_online


def _unsettled(reply: Reply) -> str:
    return f"{reply}: it may or may not have happened; run `breakglass triage` to see who leads now"


def _journalled(outcome: Outcome) -> dict[str, Any]:
    return {
        "result": outcome.result.value,
        "reason": outcome.reason,
        "leader": outcome.leader,
        "leader_epoch": outcome.leader_epoch,
        "rung": str(outcome.rung) if outcome.rung else None,
    }


def _named(outcome: Outcome) -> dict[str, Any]:
    return {
        "topic": outcome.partition.topic,
        "partition": outcome.partition.partition,
        **_journalled(outcome),
    }


def why_to_halt(outcomes: Sequence[Outcome]) -> str:
    """The reason to stop after these *outcomes*, or nothing (R4)."""
    for one in outcomes:
        if one.result is Result.ELECTED_ANOTHER:
            return (
                f"stopped because {one.partition} elected b{one.leader}, not "
                f"b{one.target.designee}: keep broker {one.leader} down, then plan again"
            )
    for one in outcomes:
        if one.result is Result.UNKNOWN:
            return f"stopped because the outcome of {one.partition} is unknown"
    if outcomes and all(one.result is Result.FAILED for one in outcomes):
        return f"stopped because {outcomes[0].partition} failed: {outcomes[0].reason}"
    return ""


def _recheck_states(
    batch: Sequence[Target], snapshot: ClusterSnapshot
) -> dict[TopicPartition, Outcome]:
    states = {one.partition: one for one in snapshot.partitions}
    looks = ((one, recheck(one, states.get(one.partition), snapshot.description)) for one in batch)
    return {one.partition: outcome for one, outcome in looks if outcome is not None}


def _all(targets: Sequence[Target], result: Result, reason: str) -> tuple[Outcome, ...]:
    return tuple(Outcome(one, result, reason) for one in targets)


def _not_attempted(batch: Sequence[Target], reason: str) -> tuple[Outcome, ...]:
    return _all(batch, Result.NOT_ATTEMPTED, reason)
