"""Puts the answers of the brokers together: one evidence for each partition. Pure.

Also says which replicas need a longer epoch history before they can be compared, and which ACLs
the user lacks, as far as answers show it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from breakglass.services.kafka.cluster.group_offsets import GroupOffsets
from breakglass.services.kafka.replicas.replica_reader import ReplicaReading
from breakglass.services.model import (
    Denied,
    EpochHistory,
    LogDir,
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    Role,
    TopicPartition,
    TopicSettings,
    Unknown,
    known,
)
from breakglass.services.quick_values import maker
from breakglass.services.snapshot import ClusterDescription, ClusterSnapshot
from breakglass.services.uncollected import uncollected

_NOT_READ = Unknown("the topic's settings were not read")
UNREAD_SETTINGS = TopicSettings(_NOT_READ, _NOT_READ, _NOT_READ, _NOT_READ)

_replica_log = maker(ReplicaLog)
_partition_evidence = maker(PartitionEvidence)


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """Everything that one broker reported."""

    readings: Mapping[TopicPartition, ReplicaReading]
    log_dirs: Mapping[TopicPartition, LogDir] | Unknown


def assemble(
    partitions: Sequence[PartitionState],
    brokers: ClusterDescription,
    settings: Mapping[str, TopicSettings],
    answers: Mapping[int, BrokerAnswer],
    silent: Mapping[int, str],
    groups: GroupOffsets | Unknown,
    groups_unread: tuple[str, ...] = (),
) -> tuple[PartitionEvidence, ...]:
    """The evidence of *partitions*, in their order.

    *silent* maps brokers without an answer to the reason; their replicas are Unknown.
    *groups* has what consumer groups committed, *groups_unread* which groups it may lack.
    """
    assigned = {broker for state in partitions for broker in state.assignment}
    witnesses = {
        broker: _witness(broker, brokers, answers.get(broker), silent.get(broker))
        for broker in assigned
    }
    unregistered = set(brokers.unregistered(tuple(assigned)))
    with uncollected(len(partitions)):
        made = [
            _evidence(
                state,
                settings.get(state.partition.topic, UNREAD_SETTINGS),
                tuple([witnesses[broker].replica(state) for broker in state.assignment]),
                groups,
                unregistered,
                groups_unread,
            )
            for state in partitions
        ]
    return tuple(made)


@dataclass(frozen=True, slots=True)
class _Witness:
    """One broker; what is the same for all its replicas is worked out once."""

    broker: int
    fenced: bool | Unknown
    answer: BrokerAnswer | None
    unread: ReplicaReading
    """Why each replica that the broker did not report is unread."""
    no_log_dir: Unknown
    silent: dict[Role, ReplicaLog] = field(default_factory=dict)
    """Of a broker without an answer: the replica of each role, which says the same everywhere."""

    def replica(self, state: PartitionState) -> ReplicaLog:
        """The broker's replica of one partition."""
        if self.answer is not None:
            partition, dirs = state.partition, self.answer.log_dirs
            reading = self.answer.readings.get(partition) or self.unread
            log_dir = dirs if isinstance(dirs, Unknown) else dirs.get(partition, self.no_log_dir)
            return self._made(state, state.role(self.broker), reading, log_dir)
        role = state.role(self.broker)
        replica = self.silent.get(role)
        if replica is None:
            replica = self.silent[role] = self._made(state, role, self.unread, self.no_log_dir)
        return replica

    def _made(
        self, state: PartitionState, role: Role, reading: ReplicaReading, log_dir: LogDir | Unknown
    ) -> ReplicaLog:
        copy = None
        if isinstance(log_dir, LogDir) and log_dir.future:
            copy, log_dir = log_dir, self.no_log_dir
        online = reading.log_dir_online
        if not isinstance(online, bool):
            online = self._online(state, reading, log_dir)
        # By place: of so many values, names cost more than all that is done with them.
        return _replica_log(
            self.broker,
            role,
            self.fenced,
            self.answer is not None,
            reading.log_start,
            reading.high_watermark,
            reading.log_end,
            reading.leader_epoch,
            reading.epochs,
            reading.newest_ms,
            online,
            log_dir,
            copy,
            reading.source,
            reading.observed_at_ms,
        )

    def _online(
        self, state: PartitionState, reading: ReplicaReading, log_dir: LogDir | Unknown
    ) -> bool | Unknown:
        """A replica that answers is online; one that does not may sit in an offline directory.

        The controller lists replicas of live brokers as offline for nothing else
        (KRaftMetadataCache.getOfflineReplicas), and the broker then answers as if it had none.
        """
        if isinstance(log_dir, LogDir):
            return log_dir.online
        refused = self.answer is not None and self.fenced is False
        if refused and self.broker in state.offline_replicas:
            return False
        return reading.log_dir_online


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
    replicas: tuple[ReplicaLog, ...],
    groups: GroupOffsets | Unknown,
    unregistered: set[int],
    groups_unread: tuple[str, ...],
) -> PartitionEvidence:
    committed: Mapping[str, int] | Unknown = _NOTHING_COMMITTED
    if isinstance(groups, Unknown):
        committed = groups
    elif groups:
        committed = groups.get(state.partition, _NOTHING_COMMITTED)
    floor, source = _floor(replicas, committed)
    strangers: tuple[int, ...] = ()
    if unregistered:
        strangers = tuple([broker for broker in state.assignment if broker in unregistered])
    return _partition_evidence(
        state, replicas, settings, floor, source, committed, strangers, groups_unread
    )


_NOTHING_COMMITTED: Mapping[str, int] = {}


def _floor(
    replicas: Sequence[ReplicaLog], committed: Mapping[str, int] | Unknown
) -> tuple[int | Unknown, str]:
    """The highest offset that is known to have existed, and the source (R11)."""
    floor, broker = -1, 0
    for log in replicas:
        mark = log.high_watermark
        if isinstance(mark, int) and mark > floor:
            floor, broker = mark, log.broker
    source = _mark_of(broker)
    if committed and not isinstance(committed, Unknown):
        for group, offset in committed.items():
            if offset > floor:
                floor, source = offset, f"group {group}"
    return (floor, source) if floor >= 0 else (_NO_FLOOR, "")


@lru_cache(4096)
def _mark_of(broker: int) -> str:
    """One text for all partitions of a broker."""
    return f"high watermark of b{broker}"


_NO_FLOOR = Unknown("no high watermark and no committed offset is known")


def without_common_epoch(partitions: Iterable[PartitionEvidence]) -> frozenset[TopicPartition]:
    """Partitions where two replicas share no known epoch and a longer history can be read."""
    return frozenset(partition.partition for partition in partitions if _lonely(partition))


def _lonely(evidence: PartitionEvidence) -> bool:
    """Neighbours that each share an epoch have a common past with all the others too."""
    read = [log for log in evidence.replicas if known(log.epochs) and not log.empty]
    return any(not _meet(replica, other) for replica, other in pairwise(read))


def _meet(replica: ReplicaLog, other: ReplicaLog) -> bool:
    if not _epochs(replica).isdisjoint(_epochs(other)):
        return True
    return _read_to_its_start(replica) and _read_to_its_start(other)


def _epochs(log: ReplicaLog) -> frozenset[int]:
    ranges = log.epochs.ranges if isinstance(log.epochs, EpochHistory) else ()
    return frozenset(range_.epoch for range_ in ranges)


def _read_to_its_start(log: ReplicaLog) -> bool:
    return (
        isinstance(log.epochs, EpochHistory)
        and isinstance(log.log_start, int)
        and log.epochs.complete_from <= log.log_start
    )


def missing_acls(snapshot: ClusterSnapshot, answers: Iterable[BrokerAnswer]) -> frozenset[str]:
    """``READ on topic orders`` and so on: each would show something that is not known."""
    return frozenset(
        value.needs for value in _values(snapshot, answers) if isinstance(value, Denied)
    )


def _values(snapshot: ClusterSnapshot, answers: Iterable[BrokerAnswer]) -> Iterator[object]:
    """Everything that an ACL may keep from being read."""
    yield snapshot.quorum
    for settings in snapshot.settings.values():
        yield settings.min_insync_replicas
    for state in snapshot.offline:
        yield state.reassignment
    for answer in answers:
        yield answer.log_dirs
        for reading in answer.readings.values():
            yield reading.epochs
