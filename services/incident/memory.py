"""Contents of logs that a watch read earlier, valid while the logs stay as they are. Pure.

What replicas hold is remembered on disk, for all sessions: `recovery.remembered`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from uuid import UUID

from breakglass.services.incident.row import IncidentRow
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.limits import Allowance
from breakglass.services.model import LogContents, PartitionEvidence, ReplicaLog, TopicPartition
from breakglass.services.recovery.evidence.contents import ContentsReading
from breakglass.services.session import Effort

_Log = tuple[UUID, int, int | None]
"""Topic id, log end offset, last written epoch: while they are the same, so is the log."""


class ContinuedReading(ContentsReading):
    """The contents of one reading of a watch, with those that earlier readings found."""

    def __init__(
        self,
        memory: ContentsMemory,
        client: ReadClient,
        effort: Effort,
        stop: Callable[[], bool],
        allowance: Allowance,
    ) -> None:
        super().__init__(client, effort, stop=stop, allowance=allowance)
        self._memory = memory

    def applied(self, partitions: Iterable[PartitionEvidence]) -> tuple[PartitionEvidence, ...]:
        return super().applied(self._memory.applied(partitions))

    def read(self, partitions: Sequence[PartitionEvidence]) -> tuple[PartitionEvidence, ...]:
        """As `ContentsReading.read`; nothing where the allowance is spent: a later reading does."""
        if self.spent and self._effort is not Effort.OFF:
            return self.applied(partitions)
        known = super().read(partitions)
        if not self._stop():
            self._memory.note(known)
        return known


class ContentsMemory:
    """The contents of offline replicas, by partition and broker."""

    def __init__(self) -> None:
        self._held: dict[tuple[TopicPartition, int], tuple[_Log, LogContents]] = {}

    def applied(self, partitions: Iterable[PartitionEvidence]) -> list[PartitionEvidence]:
        """*partitions* with the contents that were read of the same logs before."""
        return (
            [self._applied(evidence) for evidence in partitions] if self._held else list(partitions)
        )

    def note(self, partitions: Iterable[PartitionEvidence]) -> None:
        """Remember the contents that *partitions* have."""
        for evidence in partitions:
            for replica in evidence.replicas:
                log = _log(evidence, replica)
                if log is not None and isinstance(replica.contents, LogContents):
                    self._held[evidence.partition, replica.broker] = log, replica.contents

    def keep(self, rows: Iterable[IncidentRow]) -> None:
        """Forget all but the partitions of *rows*."""
        if not self._held:
            return
        partitions = {row.partition for row in rows}
        self._held = {key: contents for key, contents in self._held.items() if key[0] in partitions}

    def _applied(self, evidence: PartitionEvidence) -> PartitionEvidence:
        replicas = tuple([self._remembered(evidence, replica) for replica in evidence.replicas])
        same = all(map(operator.is_, replicas, evidence.replicas))
        return evidence if same else replace(evidence, replicas=replicas)

    def _remembered(self, evidence: PartitionEvidence, replica: ReplicaLog) -> ReplicaLog:
        known = self._held.get((evidence.partition, replica.broker))
        if known is None or known[0] != _log(evidence, replica):
            return replica
        return replace(replica, contents=known[1])


def _log(evidence: PartitionEvidence, replica: ReplicaLog) -> _Log | None:
    end, epoch = replica.log_end, replica.last_written_epoch
    if not isinstance(end, int) or not (epoch is None or isinstance(epoch, int)):
        return None
    return evidence.state.topic_id, end, epoch
