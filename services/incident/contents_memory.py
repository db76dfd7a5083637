"""What was read of replicas' contents, kept for as long as their logs stay as they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from uuid import UUID

from breakglass.services.model import LogContents, PartitionEvidence, ReplicaLog, TopicPartition

_Log = tuple[UUID, int, int | None]
"""Topic id, log end offset, last written epoch: while they are the same, so is the log."""


class ContentsMemory:
    """The contents of offline replicas, by partition and broker."""

    def __init__(self) -> None:
        self._held: dict[tuple[TopicPartition, int], tuple[_Log, LogContents]] = {}

    def applied(self, partitions: Iterable[PartitionEvidence]) -> list[PartitionEvidence]:
        """*partitions* with the contents that were read of the same logs before."""
        return [self._applied(one) for one in partitions] if self._held else list(partitions)

    def note(self, partitions: Iterable[PartitionEvidence]) -> None:
        """Remember the contents that *partitions* have."""
        for evidence in partitions:
            for replica in evidence.replicas:
                log = _log(evidence, replica)
                if log is not None and isinstance(replica.contents, LogContents):
                    self._held[evidence.partition, replica.broker] = log, replica.contents

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Forget all but *partitions*."""
        self._held = {key: held for key, held in self._held.items() if key[0] in partitions}

    def _applied(self, evidence: PartitionEvidence) -> PartitionEvidence:
        replicas = tuple([self._remembered(evidence, one) for one in evidence.replicas])
        same = all(map(_is, replicas, evidence.replicas))
        return evidence if same else replace(evidence, replicas=replicas)

    def _remembered(self, evidence: PartitionEvidence, replica: ReplicaLog) -> ReplicaLog:
        held = self._held.get((evidence.partition, replica.broker))
        if held is None or held[0] != _log(evidence, replica):
            return replica
        return replace(replica, contents=held[1])


def _log(evidence: PartitionEvidence, replica: ReplicaLog) -> _Log | None:
    end, epoch = replica.log_end, replica.last_written_epoch
    if not isinstance(end, int) or not (epoch is None or isinstance(epoch, int)):
        return None
    return evidence.state.topic_id, end, epoch


def _is(one: ReplicaLog, other: ReplicaLog) -> bool:
    return one is other
