"""Writes the ledger as JSON: all that the page says, and every partition by offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from breakglass.services.recovery.ledger.entries import (
    Fate,
    FateSum,
    IncidentLedger,
    LedgerEntry,
    PartitionLedger,
    ReplicaLedger,
    Sums,
)

SCHEMA = 1


def ledger_head(ledger: IncidentLedger) -> dict[str, Any]:
    """All but the partitions; ``adds_up`` first among its figures."""
    return {
        "schema": SCHEMA,
        "cluster_id": ledger.cluster_id,
        "journal": ledger.journal,
        "what": ledger.what,
        "result": ledger.result,
        "people": ledger.people,
        "opened_at_ms": ledger.opened_at_ms,
        "last_at_ms": ledger.last_at_ms,
        "made_at_ms": ledger.made_at_ms,
        "consents": ledger.consents,
        "digest": ledger.digest,
        "approved_by": ledger.approved_by,
        "put_back_by": ledger.put_back_by,
        "asked_cluster": ledger.asked_cluster,
        "notes": ledger.notes,
        "adds_up": ledger.adds_up,
        "differences": ledger.differences,
        "approximate": ledger.approximate,
        "held": ledger.held,
        "partitions_not_counted": ledger.uncounted,
        "sums": _sums(ledger.sums),
        "not_yet_readable": ledger.not_yet_readable if ledger.asked_cluster else None,
        "unread": ledger.unread,
        "left_out": [
            {"topic": partition.topic, "partition": partition.partition, "reason": reason}
            for partition, reason in ledger.left_out
        ],
        "moments": [{"at_ms": at_ms, "says": says} for at_ms, says in ledger.moments],
    }


def ledger_partitions(ledger: IncidentLedger) -> Iterator[dict[str, Any]]:
    """The partitions, in the order of the plan."""
    return map(_partition, ledger.partitions)


def _partition(one: PartitionLedger) -> dict[str, Any]:
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "result": one.result,
        "reason": one.reason,
        "leader": one.leader,
        "agreed": one.agreed,
        "held": one.held,
        "approximate": one.approximate,
        "sums": _sums(one.sums),
        "not_counted": one.uncounted,
        "differences": one.differences,
        "confirmed": one.confirmed,
        "not_yet_readable": one.not_yet_readable,
        "unread": {
            "brokers": one.unread,
            "at_least": one.unread_at_least,
            "source": one.unread_source,
        },
        "replicas": [_replica(replica) for replica in one.replicas],
    }


def _sums(sums: Sums) -> dict[str, Any]:
    """The records of every fate, 0 if none; records that could not be counted are in no fate."""
    return {fate.value: _sum(sums.get(fate, FateSum())) for fate in Fate}


def _sum(one: FateSum) -> dict[str, int]:
    return {"records": one.total, "committed": one.committed, "unproven": one.unproven}


def _replica(one: ReplicaLedger) -> dict[str, Any]:
    return {
        "broker": one.broker,
        "start": one.start,
        "end": one.end,
        "offsets": [_entry(entry) for entry in one.entries],
    }


def _entry(one: LedgerEntry) -> dict[str, Any]:
    return {
        "start": one.start,
        "end": one.end,
        "fate": one.fate,
        "standing": one.standing,
        "reason": one.reason,
    }
