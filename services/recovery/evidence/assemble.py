"""Puts the brokers' answers together: one evidence for each partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from breakglass.services.kafka.cluster.group_offsets import GroupOffsets
from breakglass.services.kafka.replicas.replica_reader import ReplicaReading
from breakglass.services.model import (
    ClusterDescription,
    LogDir,
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    TopicPartition,
    TopicSettings,
    Unknown,
)

_NOT_READ = Unknown("the topic's settings were not read")
UNREAD_SETTINGS = TopicSettings(_NOT_READ, _NOT_READ, _NOT_READ, _NOT_READ)


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """Everything one broker told."""

    readings: Mapping[TopicPartition, ReplicaReading]
    log_dirs: Mapping[TopicPartition, LogDir] | Unknown


def assemble(
    partitions: Sequence[PartitionState],
    brokers: ClusterDescription,
    settings: Mapping[str, TopicSettings],
    answers: Mapping[int, BrokerAnswer],
    silent: Mapping[int, str],
    groups: GroupOffsets | Unknown,
) -> tuple[PartitionEvidence, ...]:
    """The evidence of *partitions*, in their order.

    *silent* maps brokers without an answer to the reason; their replicas are Unknown.
    *groups* has what consumer groups committed.
    """
    assigned = {broker for state in partitions for broker in state.assignment}
    witnesses = {
        broker: _witness(broker, brokers, answers.get(broker), silent.get(broker))
        for broker in assigned
    }
    unregistered = set(brokers.unregistered(tuple(assigned)))
    return tuple(
        [
            _evidence(
                state,
                settings.get(state.partition.topic, UNREAD_SETTINGS),
                [witnesses[broker] for broker in state.assignment],
                groups,
                unregistered,
            )
            for state in partitions
        ]
    )


@dataclass(frozen=True, slots=True)
class _Witness:
    """One broker: what holds for all its replicas is worked out once."""

    broker: int
    fenced: bool | Unknown
    answer: BrokerAnswer | None
    unread: ReplicaReading
    """Of every replica that it did not tell of."""
    no_log_dir: Unknown

    def replica(self, state: PartitionState) -> ReplicaLog:
        """The broker's replica of one partition."""
        reading, log_dir = self._told(state.partition)
        return ReplicaLog(
            broker=self.broker,
            role=state.role(self.broker),
            fenced=self.fenced,
            reachable=self.answer is not None,
            log_start=reading.log_start,
            high_watermark=reading.high_watermark,
            log_end=reading.log_end,
            leader_epoch=reading.leader_epoch,
            epochs=reading.epochs,
            newest_ms=reading.newest_ms,
            log_dir_online=self._online(state, reading, log_dir),
            log_dir=log_dir,
            source=reading.source,
            observed_at_ms=reading.observed_at_ms,
        )

    def _online(
        self, state: PartitionState, reading: ReplicaReading, log_dir: LogDir | Unknown
    ) -> bool | Unknown:
        """A replica that answers is online; one that does not may sit in an offline directory.

        The controller lists replicas of live brokers as offline for nothing else
        (KRaftMetadataCache.getOfflineReplicas), and the broker then answers as if it held none.
        """
        if isinstance(reading.log_dir_online, bool):
            return reading.log_dir_online
        if isinstance(log_dir, LogDir):
            return log_dir.online
        refused = self.answer is not None and self.fenced is False
        if refused and self.broker in state.offline_replicas:
            return False
        return reading.log_dir_online

    def _told(self, partition: TopicPartition) -> tuple[ReplicaReading, LogDir | Unknown]:
        if self.answer is None:
            return self.unread, self.no_log_dir
        reading = self.answer.readings.get(partition, self.unread)
        dirs = self.answer.log_dirs
        if isinstance(dirs, Unknown):
            return reading, dirs
        return reading, dirs.get(partition, self.no_log_dir)


def _witness(
    broker: int, brokers: ClusterDescription, answer: BrokerAnswer | None, silence: str | None
) -> _Witness:
    if answer is None:
        reason = silence or f"b{broker} was not asked"
        no_log_dir = Unknown(reason)
    else:
        reason = f"b{broker} left this partition out of its answers"
        no_log_dir = Unknown(f"no online log directory of b{broker} holds it")
    unread = ReplicaReading.unread(reason)
    return _Witness(broker, brokers.fenced(broker), answer, unread, no_log_dir)


def _evidence(
    state: PartitionState,
    settings: TopicSettings,
    witnesses: Sequence[_Witness],
    groups: GroupOffsets | Unknown,
    unregistered: set[int],
) -> PartitionEvidence:
    replicas = tuple([one.replica(state) for one in witnesses])
    committed = groups if isinstance(groups, Unknown) else groups.get(state.partition, {})
    floor, source = _floor(replicas, committed)
    return PartitionEvidence(
        state=state,
        replicas=replicas,
        settings=settings,
        unread_floor=floor,
        unread_floor_source=source,
        group_offsets=committed,
        unregistered=tuple([one for one in state.assignment if one in unregistered]),
    )


def _floor(
    replicas: Sequence[ReplicaLog], committed: Mapping[str, int] | Unknown
) -> tuple[int | Unknown, str]:
    """The highest offset that is known to have existed, and what tells so (R11)."""
    floor, broker = -1, 0
    for log in replicas:
        if isinstance(log.high_watermark, int) and log.high_watermark > floor:
            floor, broker = log.high_watermark, log.broker
    source = f"high watermark of b{broker}"
    if not isinstance(committed, Unknown):
        for group, offset in committed.items():
            if offset > floor:
                floor, source = offset, f"group {group}"
    return (floor, source) if floor >= 0 else (_NO_FLOOR, "")


_NO_FLOOR = Unknown("no high watermark and no committed offset is known")
