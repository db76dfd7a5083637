"""Preferred elections: leadership back to the first replica of the assignment, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from services.errors import BreakglassError, OutcomeUnknown
from services.kafka.election_client import PARTITIONS_A_REQUEST, ElectionClient, Reply
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.messages.elect_leaders import ElectionType
from services.model import PartitionState, TopicPartition
from services.recovery.execution.confirm import Observer
from services.recovery.execution.limits import Limits
from services.recovery.execution.record import Record
from services.recovery.execution.target import Outcome, Result, Target

STEP = "preferred election"


def preferred_targets(states: Sequence[PartitionState]) -> tuple[Target, ...]:
    """A target for each partition whose leader is not the first of its assignment."""
    return tuple(
        Target(
            partition=one.partition,
            topic_id=one.topic_id,
            designee=one.assignment[0],
            order=one.assignment,
            assignment=one.assignment,
            leader_epoch=one.leader_epoch,
            log_end=None,
            min_insync_replicas=None,
            live=one.assignment[1:],
        )
        for one in states
        if one.leader != one.assignment[0]
    )


@dataclass(frozen=True, slots=True)
class PreferredElections:
    """What preferred elections work with."""

    client: ElectionClient
    observer: Observer
    journal: Record
    limits: Limits = field(default_factory=Limits)
    stop: Callable[[], bool] = lambda: False
    """Asked between requests: true ends after the one under way."""

    def run(self, targets: Sequence[Target]) -> Iterator[tuple[Outcome, ...]]:
        """Elect *targets*, up to 1,000 in a request; yields each request's outcomes."""
        rest = iter(targets)
        while batch := tuple(islice(rest, PARTITIONS_A_REQUEST)):
            if self.stop():
                yield _all(batch, Result.NOT_ATTEMPTED, "stopped on request")
            else:
                yield self._batch(batch)

    def _batch(self, batch: Sequence[Target]) -> tuple[Outcome, ...]:
        """Elect what still has a leader: without one, the election would be no clean one."""
        try:
            states = self.observer.states(batch, Deadline.after(self.limits.read))
        except BreakglassError as error:
            return _all(batch, Result.REFUSED, str(error))
        leaderless = [one for one in batch if not _led(one, states)]
        ready = [one for one in batch if one not in leaderless]
        refused = _all(leaderless, Result.REFUSED, "it lost its leader meanwhile: run triage")
        return refused + self._elect(ready) if ready else refused

    def _elect(self, batch: Sequence[Target]) -> tuple[Outcome, ...]:
        request = self.journal.request(
            STEP, {one.partition: {"designee": one.designee} for one in batch}
        )
        outcomes = self._outcomes(batch)
        self.journal.outcome(
            request,
            {one.partition: {"result": one.result.value, "reason": one.reason} for one in outcomes},
        )
        return outcomes

    def _outcomes(self, batch: Sequence[Target]) -> tuple[Outcome, ...]:
        partitions = [one.partition for one in batch]
        try:
            deadline = Deadline.after(self.limits.election)
            replies = self.client.elect(ElectionType.PREFERRED, partitions, deadline)
        except OutcomeUnknown as error:
            return _all(batch, Result.UNKNOWN, str(error))
        except BreakglassError as error:
            return _all(batch, Result.FAILED, str(error))
        sent = [one for one in batch if _may_have_happened(replies[one.partition])]
        confirmed = self.observer.confirm(
            sent, Deadline.after(self.limits.confirmation), until_designee_leads=True
        )
        return tuple(_outcome(one, replies[one.partition], confirmed) for one in batch)


def _led(target: Target, states: Mapping[TopicPartition, PartitionState]) -> bool:
    state = states.get(target.partition)
    return state is not None and state.leader is not None


def _may_have_happened(reply: Reply) -> bool:
    return reply.accepted or reply.unsettled


def _outcome(target: Target, reply: Reply, confirmed: Mapping[TopicPartition, Outcome]) -> Outcome:
    if target.partition in confirmed:
        seen = confirmed[target.partition]
        another = reply.unsettled and seen.result is Result.ELECTED_ANOTHER
        return replace(seen, result=Result.UNKNOWN, reason=str(reply)) if another else seen
    if reply.already_online:
        return Outcome(target, Result.ALREADY_ONLINE, "led by its preferred replica")
    return Outcome(target, Result.FAILED, str(reply))


def _all(targets: Sequence[Target], result: Result, reason: str) -> tuple[Outcome, ...]:
    return tuple(Outcome(one, result, reason) for one in targets)
