"""Writes assignments back in the order that they had before a recovery changed it (R13).

An order is written back only while the changed order is still ours: other journals, and the lock
of the cluster, say who else acts on it from this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from breakglass.services.errors import BreakglassError, OutcomeUnknown
from breakglass.services.guard.journal import UNKNOWN, Journal, JournalView, read
from breakglass.services.guard.lock import operator, signature
from breakglass.services.kafka.election_client import ElectionClient, Reply
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.recovery.execution.confirm import Observer
from breakglass.services.recovery.execution.recheck import (
    TargetCheck,
    all_registered,
    members,
    not_moving,
)
from breakglass.services.recovery.execution.steps import (
    DESIGNATE,
    ELECT,
    PREFERRED,
    REORDER,
    RESTORE,
    UNDO,
)
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    refused,
)
from breakglass.services.snapshot import ClusterSnapshot
from breakglass.services.state_folder import state_folder


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
    journal: Journal,
    outcomes: Sequence[PartitionOutcome],
    deadline: Deadline,
) -> tuple[PartitionOutcome, ...]:
    """Write the original order of every elected partition back.

    The write is blind, so each partition is read immediately before; one whose order is not
    exactly ours keeps it, and its outcome says so.
    """
    changed = [outcome.target for outcome in outcomes if _changed(outcome)]
    if not changed:
        return tuple(outcomes)
    restored = _restore(client, observer, journal, changed, deadline)
    return tuple(
        replace(outcome, order_restored=outcome.partition in restored)
        if _changed(outcome)
        else outcome
        for outcome in outcomes
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
    journal: Journal,
    targets: Sequence[ElectionTarget],
    deadline: Deadline,
) -> frozenset[TopicPartition]:
    """The partitions whose order was accepted back."""
    try:
        states = observer.states_and_moves(targets, deadline)
        ours = [target for target in targets if still_ours(target, states.get(target.partition))]
        if not ours:
            return frozenset()
        return _write(client, journal, ours, deadline)
    except BreakglassError:
        # Elections stand whatever their order; the outcome shows that it was not put back.
        return frozenset()


def _write(
    client: ElectionClient,
    journal: Journal,
    ours: Sequence[ElectionTarget],
    deadline: Deadline,
) -> frozenset[TopicPartition]:
    orders = {target.partition: target.assignment for target in ours}
    request = journal.request(
        RESTORE, {partition: {"order": order} for partition, order in orders.items()}
    )
    try:
        replies = client.reorder(orders, deadline)
    except BreakglassError as error:
        unsettled = {"result": UNKNOWN, "reason": str(error)}
        journal.outcome(request, dict.fromkeys(orders, unsettled))
        return frozenset()
    journal.outcome(
        request,
        {
            partition: {"result": UNKNOWN if reply.unsettled else str(reply), "reason": str(reply)}
            for partition, reply in replies.items()
        },
    )
    return frozenset(partition for partition, reply in replies.items() if reply.accepted)


def undo_orders(
    client: ElectionClient,
    snapshot: ClusterSnapshot,
    journal: Journal,
    targets: Sequence[ElectionTarget],
    deadline: Deadline,
) -> tuple[PartitionOutcome, ...]:
    """Write the original order of *targets* where it is still ours to do, by *snapshot*.

    The write is blind and runs an election of its own (R1), so it is refused wherever that
    would elect somebody. At most 1,000 targets.
    """
    settled = {target.partition: _settled(target, snapshot) for target in targets}
    ready = [target for target in targets if settled[target.partition] is None]
    written = _write_undo(client, journal, ready, deadline) if ready else {}
    return tuple(settled[target.partition] or written[target.partition] for target in targets)


def _settled(target: ElectionTarget, snapshot: ClusterSnapshot) -> PartitionOutcome | None:
    """The outcome of *target* if nothing is to be written; None where its order is."""
    state = next(
        (state for state in snapshot.partitions if state.partition == target.partition), None
    )
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
    """The replica that the write itself would elect."""
    names = " and ".join(f"b{member}" for member in members(look.state, look.brokers))
    if names:
        return f"writing the order would elect {names}: let that happen or stop it, then look again"
    settings = snapshot.settings.get(look.target.partition.topic)
    if settings is None or settings.unclean_election is not False:
        return (
            "its topic may allow unclean elections, so that writing the order would elect by it: "
            "finish the recovery instead"
        )
    return ""


def _write_undo(
    client: ElectionClient,
    journal: Journal,
    targets: Sequence[ElectionTarget],
    deadline: Deadline,
) -> dict[TopicPartition, PartitionOutcome]:
    orders = {target.partition: target.assignment for target in targets}
    request = journal.request(
        UNDO, {partition: {"order": order} for partition, order in orders.items()}
    )
    try:
        replies = client.reorder(orders, deadline)
        outcomes = [_outcome(target, replies[target.partition]) for target in targets]
    except BreakglassError as error:
        unknown = isinstance(error, OutcomeUnknown)
        result = RecoveryResult.UNKNOWN if unknown else RecoveryResult.FAILED
        outcomes = [PartitionOutcome(target, result, str(error)) for target in targets]
    journal.outcome(request, {outcome.partition: _undo_journalled(outcome) for outcome in outcomes})
    return {outcome.partition: outcome for outcome in outcomes}


def _outcome(target: ElectionTarget, reply: Reply) -> PartitionOutcome:
    if reply.accepted:
        return PartitionOutcome(target, RecoveryResult.UNDONE)
    return PartitionOutcome(
        target, RecoveryResult.UNKNOWN if reply.unsettled else RecoveryResult.FAILED, str(reply)
    )


def _undo_journalled(outcome: PartitionOutcome) -> dict[str, str]:
    words = {RecoveryResult.UNDONE: "accepted", RecoveryResult.UNKNOWN: UNKNOWN}
    return {"result": words.get(outcome.result, str(outcome.result)), "reason": outcome.reason}


_CHANGING = frozenset({REORDER, ELECT, DESIGNATE, PREFERRED, RESTORE, UNDO})


def others_at_work(own: Path, cluster_id: str, partition: TopicPartition) -> tuple[str, ...]:
    """Who else is known to have changed *partition* since the journal *own* was opened.

    Read are the journals beside it and those of the user's state folder, and who has signed
    that folder's lock. Operators on other machines leave neither here.
    """
    try:
        since = read(own).opened_at_ms
    except BreakglassError:
        return ()
    acted = [
        f"{view.who} (journal {view.path})"
        for view in _journals(own, cluster_id, since)
        if any(
            step.name in _CHANGING and step.request.at_ms >= since
            for step in view.steps_of(partition)
        )
    ]
    return tuple(acted) or tuple(_holding(cluster_id))


def _journals(own: Path, cluster_id: str, since_ms: int) -> Iterator[JournalView]:
    """The other journals of the cluster that were written in since then."""
    from breakglass.services.guard.lock import file_name

    folders = {own.parent.resolve(), (state_folder() / "journal" / file_name(cluster_id)).resolve()}
    for path in sorted(path for folder in folders for path in folder.glob("*.jsonl")):
        try:
            if path.resolve() == own.resolve() or path.stat().st_mtime_ns // 10**6 < since_ms:
                continue
            view = read(path)
        except (OSError, BreakglassError):
            continue
        if view.cluster_id == cluster_id:
            yield view


def _holding(cluster_id: str) -> Iterator[str]:
    """Who holds the lock of the user's state folder, if not this process."""
    signed = signature(cluster_id, state_folder() / "locks")
    if "who" in signed and (signed["who"], signed.get("pid")) != (operator(), os.getpid()):
        yield f"{signed['who']} (process {signed.get('pid')}, which holds the lock of this cluster)"
