"""One attempt at a batch: the route's steps, each journalled before and after, then confirmed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from breakglass.services.errors import BreakglassError, OutcomeUnknown, StorageError
from breakglass.services.kafka.election_client import Reply
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.batches import ExecutionLimits
from breakglass.services.recovery.execution.confirm import Observer
from breakglass.services.recovery.execution.record import ExecutionJournal, described
from breakglass.services.recovery.execution.routes import REORDER, Replies, Route, RouteStep
from breakglass.services.recovery.execution.target import (
    Clues,
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    explained,
)


@dataclass(slots=True)
class BatchAttempt:
    """The results of a batch so far. Used for one attempt, then read."""

    observer: Observer
    route: Route
    journal: ExecutionJournal
    limits: ExecutionLimits
    stop: Callable[[], bool] = lambda: False
    """Ends the wait for what is under way."""
    others: Callable[[TopicPartition], Sequence[str]] = lambda _: ()
    """Who else acts on a partition, as far as this machine knows."""
    outcomes: dict[TopicPartition, PartitionOutcome] = field(default_factory=dict)
    transient: set[TopicPartition] = field(default_factory=set)
    """Partitions that were not elected, and are worth another try."""
    reordered: set[TopicPartition] = field(default_factory=set)
    """Partitions whose assignment may have been written in another order."""
    accepted: set[TopicPartition] = field(default_factory=set)
    """Partitions whose assignment was written in another order, as the controller said."""
    common: str = ""
    """Why nothing more was sent; set where every other request would fail alike."""
    _lost: list[tuple[int, ElectionTarget, str]] = field(default_factory=list)
    """Requests whose answer never came, or settles nothing."""
    _underway: set[TopicPartition] = field(default_factory=set)
    """Partitions among these whose election may still take effect."""

    def make(self, targets: Sequence[ElectionTarget]) -> None:
        """Send the route's steps, each for what the one before accepted, and confirm."""
        if not targets:
            return
        left = list(targets)
        replies: Replies = {}
        request = 0
        for step in self.route.steps:
            try:
                request = self._announce(step, left)
            except StorageError as error:
                self.common = str(error)
                self._keep(_all(left, RecoveryResult.REFUSED, self.common))
                left = []
                break
            replies = self._send(step, request, left)
            left = [target for target in left if _went_through(replies.get(target.partition))]
            if not left:
                break
        if left:
            self._settle(request, self._confirm(left, replies))
        self._ask_about_lost()

    def _announce(self, step: RouteStep, targets: Sequence[ElectionTarget]) -> int:
        """Write down what is about to be sent, with what it takes to undo it.

        Raises:
            StorageError: it could not be written, so it must not be sent.
        """
        return self.journal.request(
            step.name, {target.partition: described(target) for target in targets}
        )

    def _send(self, step: RouteStep, request: int, targets: Sequence[ElectionTarget]) -> Replies:
        """The replies to a step; notes which of them failed or were lost."""
        try:
            replies = step.send(targets, Deadline.after(self.limits.election))
        except OutcomeUnknown as error:
            self._note_orders(step, targets)
            self._lose(step, [(request, target, str(error)) for target in targets])
            return {}
        except BreakglassError as error:
            self.common = str(error)
            self._settle(request, _all(targets, RecoveryResult.FAILED, self.common))
            if error.retriable:
                self.transient.update(target.partition for target in targets)
            return {}
        self._sort(step, request, targets, replies)
        return replies

    def _sort(
        self, step: RouteStep, request: int, targets: Sequence[ElectionTarget], replies: Replies
    ) -> None:
        """Settle what failed, remember what is unsettled, and journal what continues."""
        unsettled = [target for target in targets if replies[target.partition].unsettled]
        failed = [
            target
            for target in targets
            if target not in unsettled and not _went_through(replies[target.partition])
        ]
        self._note_orders(step, [target for target in targets if target not in failed])
        self._note_accepted(step, targets, replies)
        self._lose(
            step,
            [(request, target, _unsettled(replies[target.partition])) for target in unsettled],
        )
        self._settle(
            request,
            [
                PartitionOutcome(target, RecoveryResult.FAILED, str(replies[target.partition]))
                for target in failed
            ],
        )
        self.transient.update(
            target.partition for target in failed if replies[target.partition].transient
        )
        answers = (replies[target.partition] for target in failed)
        self.common = next((str(reply) for reply in answers if reply.whole), "")
        if step is not self.route.steps[-1]:
            accepted = [target for target in targets if _went_through(replies[target.partition])]
            self._journal(
                request, {target.partition: {"result": "accepted"} for target in accepted}
            )

    def _lose(self, step: RouteStep, lost: Sequence[tuple[int, ElectionTarget, str]]) -> None:
        self._lost += lost
        if step is self.route.steps[-1]:
            self._underway.update(target.partition for _, target, _ in lost)

    def _note_orders(self, step: RouteStep, targets: Sequence[ElectionTarget]) -> None:
        if step.name == REORDER:
            changed = (target for target in targets if target.order != target.assignment)
            self.reordered.update(target.partition for target in changed)

    def _note_accepted(
        self, step: RouteStep, targets: Sequence[ElectionTarget], replies: Replies
    ) -> None:
        if step.name == REORDER:
            self.accepted.update(
                target.partition
                for target in targets
                if target.order != target.assignment and replies[target.partition].accepted
            )

    def _confirm(
        self, targets: Sequence[ElectionTarget], replies: Replies
    ) -> list[PartitionOutcome]:
        confirmed = self.observer.confirm(targets, Deadline.after(self.limits.confirmation))
        outcomes = [
            self._already_led(confirmed[target.partition], replies[target.partition])
            for target in targets
        ]
        return self._explained(outcomes, replies)

    def _already_led(self, outcome: PartitionOutcome, reply: Reply) -> PartitionOutcome:
        """A designated election changes nothing that is online; a reorder may have elected."""
        another = outcome.result is RecoveryResult.ELECTED_ANOTHER
        if another and reply.already_online and not self.route.reorders:
            led = f"led by b{outcome.leader}"
            return replace(outcome, result=RecoveryResult.ALREADY_ONLINE, reason=led)
        return outcome

    def _explained(
        self, outcomes: Sequence[PartitionOutcome], replies: Replies
    ) -> list[PartitionOutcome]:
        """*outcomes*, with the causes that can be proved where another replica leads."""
        missed = [
            outcome.target
            for outcome in outcomes
            if outcome.result is RecoveryResult.ELECTED_ANOTHER
        ]
        seen = self.observer.seen_again(missed, Deadline.after(self.limits.read)) if missed else {}
        return [
            explained(outcome, self._clues(seen[outcome.partition], replies))
            if outcome.partition in seen
            else outcome
            for outcome in outcomes
        ]

    def _clues(self, seen: Clues, replies: Replies) -> Clues:
        partition = seen.partition
        reply = replies.get(partition)
        return replace(
            seen,
            order_written=partition in self.accepted,
            led_before=reply is not None and reply.already_online,
            others=self.others(partition),
        )

    def _ask_about_lost(self) -> None:
        """Settle lost answers by what brokers say now; the others stay unknown.

        A broker that was frozen, or controllers that were, may carry out an election once they go
        on: it is waited for. Without an election that is under way no leader is to be expected.
        """
        if not self._lost:
            return
        targets = [target for _, target, _ in self._lost]
        limit = self.limits.underway if self._underway else self.limits.confirmation
        confirmed = self.observer.confirm(targets, Deadline.after(limit), stop=self.stop)
        explained_by = {
            outcome.partition: outcome for outcome in self._explained(tuple(confirmed.values()), {})
        }
        for request, target, reason in self._lost:
            explained = explained_by[target.partition]
            self._settle(
                request,
                [replace(explained, reason=reason) if explained.leader is None else explained],
            )

    def _settle(self, request: int, outcomes: Sequence[PartitionOutcome]) -> None:
        self._keep(outcomes)
        self._journal(request, {outcome.partition: journalled(outcome) for outcome in outcomes})

    def _keep(self, outcomes: Sequence[PartitionOutcome]) -> None:
        self.outcomes.update({outcome.partition: outcome for outcome in outcomes})

    def _journal(self, request: int, items: Mapping[TopicPartition, Mapping[str, Any]]) -> None:
        """Write down what became of a request; report the outcome even if that fails.

        The next step's announcement meets the same obstacle, and then nothing more is sent.
        """
        if not items:
            return
        try:
            self.journal.outcome(request, items)
        except StorageError:
            return


def journalled(outcome: PartitionOutcome) -> dict[str, Any]:
    """*outcome* as the journal records it."""
    return {
        "result": outcome.result.value,
        "reason": outcome.reason,
        "leader": outcome.leader,
        "leader_epoch": outcome.leader_epoch,
        "rung": str(outcome.rung) if outcome.rung else None,
    }


def _went_through(reply: Reply | None) -> bool:
    return reply is not None and (reply.accepted or reply.already_online)


def _unsettled(reply: Reply) -> str:
    return (
        f"{reply}: it may or may not have happened, and may still within a minute; run "
        "`breakglass triage` then to see who leads"
    )


def _all(
    targets: Sequence[ElectionTarget], result: RecoveryResult, reason: str
) -> list[PartitionOutcome]:
    return [PartitionOutcome(target, result, reason) for target in targets]
