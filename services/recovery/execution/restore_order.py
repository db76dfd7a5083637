"""Puts assignments back into the order they had, where that is still ours to do (R13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from breakglass.services.errors import BreakglassError
from breakglass.services.guard.journal_view import UNKNOWN
from breakglass.services.kafka.election_client import ElectionClient, Reply
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.recovery.execution.confirm import Observer
from breakglass.services.recovery.execution.record import ExecutionJournal
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
)

RESTORE = "restore order"
"""The step's name in the journal."""


def still_ours(target: ElectionTarget, state: PartitionState | None) -> bool:
    """The order is exactly what was written, the designee leads, nothing is being moved."""
    return (
        state is not None
        and state.assignment == target.order
        and state.leader == target.designee
        and state.reassignment is None
    )


def restore_orders(
    client: ElectionClient,
    observer: Observer,
    journal: ExecutionJournal,
    outcomes: Sequence[PartitionOutcome],
    deadline: Deadline,
) -> tuple[PartitionOutcome, ...]:
    """Write the original order of every elected partition back.

    The write is blind, so each partition is read immediately before; one whose order is not
    exactly ours keeps it, and its outcome says so.
    """
    changed = [one.target for one in outcomes if _changed(one)]
    if not changed:
        return tuple(outcomes)
    restored = _restore(client, observer, journal, changed, deadline)
    return tuple(
        replace(one, order_restored=one.partition in restored) if _changed(one) else one
        for one in outcomes
    )


def _changed(outcome: PartitionOutcome) -> bool:
    """Elected after its assignment was written in another order."""
    return (
        outcome.result is RecoveryResult.ELECTED
        and outcome.target.order != outcome.target.assignment
    )


def _restore(
    client: ElectionClient,
    observer: Observer,
    journal: ExecutionJournal,
    targets: Sequence[ElectionTarget],
    deadline: Deadline,
) -> frozenset[TopicPartition]:
    """The partitions whose order was accepted back."""
    try:
        states = observer.states_and_moves(targets, deadline)
        ours = [one for one in targets if still_ours(one, states.get(one.partition))]
        if not ours:
            return frozenset()
        return _write(client, journal, ours, deadline)
    except BreakglassError:
        # Elections stand whatever their order; the outcome shows that it was not put back.
        return frozenset()


def _write(
    client: ElectionClient,
    journal: ExecutionJournal,
    ours: Sequence[ElectionTarget],
    deadline: Deadline,
) -> frozenset[TopicPartition]:
    orders = {one.partition: one.assignment for one in ours}
    request = journal.request(RESTORE, {one: {"order": order} for one, order in orders.items()})
    try:
        replies = client.reorder(orders, deadline)
    except BreakglassError as error:
        unsettled = {"result": UNKNOWN, "reason": str(error)}
        journal.outcome(request, dict.fromkeys(orders, unsettled))
        return frozenset()
    journal.outcome(request, {one: _journalled(reply) for one, reply in replies.items()})
    return frozenset(partition for partition, reply in replies.items() if reply.accepted)


def _journalled(reply: Reply) -> dict[str, str]:
    return {"result": UNKNOWN if reply.unsettled else str(reply), "reason": str(reply)}
