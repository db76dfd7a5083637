"""Reads from leaders what proves how an open transaction was to end (R18, R28)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from breakglass.services import patience
from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import (
    DEBUGGING_REPLICA,
    LATEST,
    OffsetError,
    list_offsets,
)
from breakglass.services.kafka.replicas.replica_records import ReplicaRecords
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.transactions.decisions import Decisions, decided
from breakglass.services.recovery.transactions.evidence import (
    FoundMarker,
    ProvenEnd,
    TransactionBatch,
    proven,
)
from breakglass.services.topic_backup.batch_header import BatchHeader

EPOCHS = 64
"""Number of leader epochs asked for, to join a rescue to the leader's log."""


def proof_by_marker(
    client: ReadClient, state: PartitionState, pending: OpenTransaction, found: FoundMarker
) -> ProvenEnd | Unknown:
    """What *found* proves about *pending*, by all that its producer has on the leader.

    What the producer wrote since belongs to its next transaction, which a marker would end as well:
    a coordinator that was set back takes both for one (R28).
    """
    assert state.leader is not None
    reader, deadline = client.replicas_on(state.leader), Deadline.after(patience.COMMAND)
    end = reader.read({state.partition: state.topic_id}, deadline)[state.partition].log_end
    reader.deepen([state.partition], EPOCHS, deadline)
    epochs = reader.history(state.partition)
    if isinstance(end, Unknown):
        return end
    if isinstance(epochs, Unknown):
        return epochs
    return proven(found, pending, _batches(client, state.leader, pending, end), epochs)


def _batches(
    client: ReadClient, leader: int, pending: OpenTransaction, end: int
) -> frozenset[TransactionBatch]:
    return frozenset(
        TransactionBatch(header.base_offset, header.leader_epoch, header.count)
        for header in _headers(client, leader, pending, end)
    )


def _headers(
    client: ReadClient, leader: int, pending: OpenTransaction, end: int
) -> Iterator[BatchHeader]:
    log = ReplicaRecords(client.sender, leader, pending.partition)
    for chunk in log.chunks(pending.start_offset, end):
        for header in chunk.headers:
            if header.producer_id == pending.producer_id and not header.control:
                yield header


def proofs_by_decision(
    client: ReadClient,
    state: PartitionState,
    pending: OpenTransaction,
    decisions: Sequence[Decisions],
) -> Iterator[ProvenEnd | Unknown]:
    """What the coordinators' logs prove about *pending*."""
    if not decisions:
        return
    assert state.leader is not None
    end = _log_end(client, state.leader, pending.partition)
    if isinstance(end, Unknown):
        yield end
        return
    headers = list(_headers(client, state.leader, pending, end))
    found = decided(pending, decisions, max((h.max_timestamp for h in headers), default=-1))
    if isinstance(found, Unknown):
        yield found
    elif found is not None:
        decision, marker = found
        present = sum(header.count for header in headers)
        missing = Unknown(f"no lost log of {pending.partition} was named that has its marker")
        yield ProvenEnd(decision.source, decision.offset, marker, present, missing, decision.status)


def records_here(client: ReadClient, leader: int, pending: OpenTransaction) -> int | Unknown:
    """How many records an abort hides."""
    end = _log_end(client, leader, pending.partition)
    if isinstance(end, Unknown):
        return end
    return sum(header.count for header in _headers(client, leader, pending, end))


def _log_end(client: ReadClient, leader: int, partition: TopicPartition) -> int | Unknown:
    told = list_offsets(
        client.sender,
        leader,
        [partition],
        LATEST,
        Deadline.after(patience.COMMAND),
        replica_id=DEBUGGING_REPLICA,
    )[partition]
    return told if isinstance(told, OffsetError) else told.offset
