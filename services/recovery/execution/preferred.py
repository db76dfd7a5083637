"""Preferred elections: leadership back to the first replica of the assignment, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from services.errors import BreakglassError, OutcomeUnknown
from services.kafka.deadline import Deadline
from services.kafka.election_client import PARTITIONS_A_REQUEST, ElectionClient, Reply
from services.kafka.messages.elect_leaders import ElectionType
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


def elect_preferred(
    client: ElectionClient,
    observer: Observer,
    journal: Record,
    targets: Sequence[Target],
    limits: Limits,
) -> Iterator[tuple[Outcome, ...]]:
    """Hold preferred elections, up to 1,000 in a request; yields each request's outcomes."""
    rest = iter(targets)
    while batch := tuple(islice(rest, PARTITIONS_A_REQUEST)):
        request = journal.request(
            STEP, {one.partition: {"designee": one.designee} for one in batch}
        )
        outcomes = _elect(client, observer, batch, limits)
        journal.outcome(
            request,
            {one.partition: {"result": one.result.value, "reason": one.reason} for one in outcomes},
        )
        yield outcomes


def _elect(
    client: ElectionClient, observer: Observer, batch: Sequence[Target], limits: Limits
) -> tuple[Outcome, ...]:
    partitions = [one.partition for one in batch]
    try:
        deadline = Deadline.after(limits.election)
        replies = client.elect(ElectionType.PREFERRED, partitions, deadline)
    except OutcomeUnknown as error:
        return tuple(Outcome(one, Result.UNKNOWN, str(error)) for one in batch)
    except BreakglassError as error:
        return tuple(Outcome(one, Result.FAILED, str(error)) for one in batch)
    accepted = [one for one in batch if replies[one.partition].accepted]
    confirmed = observer.confirm(
        accepted, Deadline.after(limits.confirmation), until_designee_leads=True
    )
    return tuple(_outcome(one, replies, confirmed) for one in batch)


def _outcome(
    target: Target,
    replies: dict[TopicPartition, Reply],
    confirmed: dict[TopicPartition, Outcome],
) -> Outcome:
    reply = replies[target.partition]
    if target.partition in confirmed:
        return confirmed[target.partition]
    if reply.already_online:
        return Outcome(target, Result.ALREADY_ONLINE, "led by its preferred replica")
    return Outcome(target, Result.FAILED, str(reply))
