"""Preferred elections: leadership back to the first replica of the assignment, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from breakglass.services.errors import BreakglassError, OutcomeUnknown
from breakglass.services.kafka.election_client import PARTITIONS_A_REQUEST, ElectionClient, Reply
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.kip1275 import ElectionType
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.recovery.execution.batches import ExecutionLimits
from breakglass.services.recovery.execution.confirm import Observer
from breakglass.services.recovery.execution.record import ExecutionJournal
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
)

STEP = "preferred election"


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


@dataclass(frozen=True, slots=True)
class PreferredElections:
    """What preferred elections work with."""

    client: ElectionClient
    observer: Observer
    journal: ExecutionJournal
    limits: ExecutionLimits = field(default_factory=ExecutionLimits)
    stop: Callable[[], bool] = lambda: False
    """Asked between requests; true ends the act after the request under way."""

    def run(self, targets: Sequence[ElectionTarget]) -> Iterator[tuple[PartitionOutcome, ...]]:
        """Elect *targets*, up to 1,000 in a request; yields each request's outcomes."""
        rest = iter(targets)
        while batch := tuple(islice(rest, PARTITIONS_A_REQUEST)):
            if self.stop():
                yield _all(batch, RecoveryResult.NOT_ATTEMPTED, "stopped on request")
            else:
                yield self._batch(batch)

    def _batch(self, batch: Sequence[ElectionTarget]) -> tuple[PartitionOutcome, ...]:
        """Elect partitions that still have a leader; others could lose records."""
        try:
            states = self.observer.states(batch, Deadline.after(self.limits.read))
        except BreakglassError as error:
            return _all(batch, RecoveryResult.REFUSED, str(error))
        leaderless = [target for target in batch if not _led(target, states)]
        ready = [target for target in batch if target not in leaderless]
        refused = _all(leaderless, RecoveryResult.REFUSED, "it has lost its leader: run triage")
        return refused + self._elect(ready) if ready else refused

    def _elect(self, batch: Sequence[ElectionTarget]) -> tuple[PartitionOutcome, ...]:
        request = self.journal.request(
            STEP, {target.partition: {"designee": target.designee} for target in batch}
        )
        outcomes = self._outcomes(batch)
        self.journal.outcome(
            request,
            {
                outcome.partition: {"result": outcome.result.value, "reason": outcome.reason}
                for outcome in outcomes
            },
        )
        return outcomes

    def _outcomes(self, batch: Sequence[ElectionTarget]) -> tuple[PartitionOutcome, ...]:
        partitions = [target.partition for target in batch]
        try:
            deadline = Deadline.after(self.limits.election)
            replies = self.client.elect(ElectionType.PREFERRED, partitions, deadline)
        except OutcomeUnknown as error:
            return _all(batch, RecoveryResult.UNKNOWN, str(error))
        except BreakglassError as error:
            return _all(batch, RecoveryResult.FAILED, str(error))
        sent = [
            target
            for target in batch
            if (reply := replies[target.partition]).accepted or reply.unsettled
        ]
        confirmed = self.observer.confirm(
            sent, Deadline.after(self.limits.confirmation), until_designee_leads=True
        )
        return tuple(_outcome(target, replies[target.partition], confirmed) for target in batch)


def _led(target: ElectionTarget, states: Mapping[TopicPartition, PartitionState]) -> bool:
    state = states.get(target.partition)
    return state is not None and state.leader is not None


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
