"""Remembers whose log would have destroyed what others hold, for when that broker is stopped.

A time bomb's broker is to be stopped, and then tells its log no more. Without a memory it would
look like one whose start brings everything back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import (
    Forfeited,
    PartitionEvidence,
    ReplicaLog,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.words.moments import time_text


class Forfeits:
    """What one session has seen; never forgotten while the broker stays silent."""

    def __init__(self) -> None:
        self._seen: dict[tuple[TopicPartition, UUID], dict[int, int]] = {}
        """When the log of a broker was last read as such a one, in milliseconds of the epoch."""

    def note(self, rows: Iterable[IncidentRow], read_at_ms: int) -> None:
        """Take in what was concluded of *rows*, whose replicas were just read."""
        for row in rows:
            if row.verdict is Verdict.BOMB and row.action and row.action.broker is not None:
                held = self._seen.setdefault((row.partition, row.state.topic_id), {})
                held[row.action.broker] = read_at_ms

    def applied(self, evidence: PartitionEvidence) -> PartitionEvidence:
        """*evidence* with what is remembered of logs that cannot be read now."""
        key = (evidence.partition, evidence.state.topic_id)
        held = self._seen.get(key)
        if not held:
            return evidence
        replicas = tuple([_remembered(one, held) for one in evidence.replicas])
        return replace(evidence, replicas=replicas)


def _remembered(replica: ReplicaLog, held: dict[int, int]) -> ReplicaLog:
    if not isinstance(replica.log_end, Unknown):
        held.pop(replica.broker, None)
        return replica
    seen_at = held.get(replica.broker)
    if seen_at is None:
        return replica
    reason = (
        f"electing it would destroy what others hold, as it reported at {time_text(seen_at)}; "
        f"now {replica.log_end.reason}"
    )
    return replace(replica, log_end=Forfeited(reason))
