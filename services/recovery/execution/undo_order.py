"""Puts the order of partitions back that were reordered and never elected."""

from __future__ import annotations

from collections.abc import Sequence

from breakglass.services.errors import BreakglassError, OutcomeUnknown
from breakglass.services.guard.journal_view import UNKNOWN
from breakglass.services.kafka.election_client import ElectionClient, Reply
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import ClusterSnapshot, TopicPartition
from breakglass.services.recovery.execution.recheck import (
    TargetCheck,
    all_registered,
    members,
    not_moving,
)
from breakglass.services.recovery.execution.record import ExecutionJournal
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    refused,
)

UNDO = "undo order"
"""The step's name in the journal."""


def undo_orders(
    client: ElectionClient,
    snapshot: ClusterSnapshot,
    journal: ExecutionJournal,
    targets: Sequence[ElectionTarget],
    deadline: Deadline,
) -> tuple[PartitionOutcome, ...]:
    """Write the original order of *targets* where it is still ours to do, by *snapshot*.

    The write is blind and runs an election of its own (R1), so it is refused wherever that
    would elect somebody. At most 1,000 targets.
    """
    settled = {one.partition: _settled(one, snapshot) for one in targets}
    ready = [one for one in targets if settled[one.partition] is None]
    written = _write(client, journal, ready, deadline) if ready else {}
    return tuple(settled[one.partition] or written[one.partition] for one in targets)


def _settled(target: ElectionTarget, snapshot: ClusterSnapshot) -> PartitionOutcome | None:
    """The outcome of *target* if nothing is to be written; None where its order is."""
    state = next((one for one in snapshot.partitions if one.partition == target.partition), None)
    if state is None or state.topic_id != target.topic_id:
        return refused(target, "the topic is gone: nothing is left to undo")
    if state.leader is not None:
        return refused(target, f"b{state.leader} leads it: an election cannot be undone")
    if state.assignment == target.assignment:
        return PartitionOutcome(target, RecoveryResult.UNDONE, "its order is as it was")
    if state.assignment != target.order:
        return refused(target, f"its order is {list(state.assignment)}, which is not ours")
    look = TargetCheck(target, state, snapshot.description)
    why = not_moving(look) or all_registered(look) or _would_elect(look, snapshot)
    return refused(target, why) if why else None


def _would_elect(look: TargetCheck, snapshot: ClusterSnapshot) -> str:
    """Whom the write itself would elect."""
    names = " and ".join(f"b{one}" for one in members(look.state, look.brokers))
    if names:
        return f"writing the order would elect {names}: let that happen or stop it, then look again"
    settings = snapshot.settings.get(look.target.partition.topic)
    if settings is None or settings.unclean_election is not False:
        return (
            "its topic may allow unclean elections, so that writing the order would elect by it: "
            "finish the recovery instead"
        )
    return ""


def _write(
    client: ElectionClient,
    journal: ExecutionJournal,
    targets: Sequence[ElectionTarget],
    deadline: Deadline,
) -> dict[TopicPartition, PartitionOutcome]:
    orders = {one.partition: one.assignment for one in targets}
    request = journal.request(UNDO, {one: {"order": order} for one, order in orders.items()})
    try:
        replies = client.reorder(orders, deadline)
        outcomes = [_outcome(one, replies[one.partition]) for one in targets]
    except BreakglassError as error:
        unknown = isinstance(error, OutcomeUnknown)
        result = RecoveryResult.UNKNOWN if unknown else RecoveryResult.FAILED
        outcomes = [PartitionOutcome(one, result, str(error)) for one in targets]
    journal.outcome(request, {one.partition: _journalled(one) for one in outcomes})
    return {one.partition: one for one in outcomes}


def _outcome(target: ElectionTarget, reply: Reply) -> PartitionOutcome:
    if reply.accepted:
        return PartitionOutcome(target, RecoveryResult.UNDONE)
    return PartitionOutcome(
        target, RecoveryResult.UNKNOWN if reply.unsettled else RecoveryResult.FAILED, str(reply)
    )


def _journalled(outcome: PartitionOutcome) -> dict[str, str]:
    words = {RecoveryResult.UNDONE: "accepted", RecoveryResult.UNKNOWN: UNKNOWN}
    return {"result": words.get(outcome.result, str(outcome.result)), "reason": outcome.reason}
