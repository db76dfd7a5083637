"""Puts the brokers' answers together: one evidence for each partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.kafka.group_offsets import GroupOffsets
from services.kafka.replica_reader import ReplicaReader, ReplicaReading
from services.model import (
    ClusterDescription,
    LogDir,
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    TopicPartition,
    TopicSettings,
    Unknown,
    known,
)

_NOT_READ = Unknown("the topic's settings were not read")
UNREAD_SETTINGS = TopicSettings(_NOT_READ, _NOT_READ, _NOT_READ, _NOT_READ)


@dataclass(frozen=True, slots=True)
class BrokerAnswer:
    """Everything one broker told."""

    readings: Mapping[TopicPartition, ReplicaReading]
    log_dirs: Mapping[TopicPartition, LogDir] | Unknown
    group_offsets: GroupOffsets | Unknown
    reader: ReplicaReader
    """Keeps the epoch walks, to read histories further back."""


def assemble(
    partitions: Sequence[PartitionState],
    brokers: ClusterDescription,
    settings: Mapping[str, TopicSettings],
    answers: Mapping[int, BrokerAnswer],
    silent: Mapping[int, str],
) -> tuple[PartitionEvidence, ...]:
    """The evidence of *partitions*, in their order.

    *silent* maps brokers without an answer to the reason; their replicas are Unknown.
    """
    groups = _all_groups(answers)
    return tuple(
        _evidence(state, brokers, settings.get(state.partition.topic, UNREAD_SETTINGS),
                  answers, silent, groups)
        for state in partitions
    )  # fmt: skip


def _evidence(
    state: PartitionState,
    brokers: ClusterDescription,
    settings: TopicSettings,
    answers: Mapping[int, BrokerAnswer],
    silent: Mapping[int, str],
    groups: GroupOffsets | Unknown,
) -> PartitionEvidence:
    replicas = tuple(
        _replica(state, broker, brokers.fenced(broker), answers.get(broker), silent.get(broker))
        for broker in state.assignment
    )
    committed = groups if isinstance(groups, Unknown) else groups.get(state.partition, {})
    floor, source = _floor(replicas, committed)
    return PartitionEvidence(
        state=state,
        replicas=replicas,
        settings=settings,
        unread_floor=floor,
        unread_floor_source=source,
        group_offsets=committed,
        unregistered=brokers.unregistered(state.assignment),
    )


def _replica(
    state: PartitionState,
    broker: int,
    fenced: bool | Unknown,
    answer: BrokerAnswer | None,
    silence: str | None,
) -> ReplicaLog:
    if answer is None:
        reading = ReplicaReading.unread(silence or f"b{broker} was not asked")
        log_dir: LogDir | Unknown = Unknown(silence or f"b{broker} was not asked")
    else:
        untold = ReplicaReading.unread(f"b{broker} left this partition out of its answers")
        reading = answer.readings.get(state.partition, untold)
        log_dir = _log_dir(state.partition, broker, answer)
    epochs = reading.epochs if answer is None else answer.reader.history(state.partition)
    return ReplicaLog(
        broker=broker,
        role=state.role(broker),
        fenced=fenced,
        reachable=answer is not None,
        log_start=reading.log_start,
        high_watermark=reading.high_watermark,
        log_end=reading.log_end,
        leader_epoch=reading.leader_epoch,
        epochs=epochs if known(reading.log_end) else reading.epochs,
        newest_ms=reading.newest_ms,
        log_dir_online=_online(reading, log_dir),
        log_dir=log_dir,
        source=reading.source,
        observed_at_ms=reading.observed_at_ms,
    )


def _log_dir(partition: TopicPartition, broker: int, answer: BrokerAnswer) -> LogDir | Unknown:
    if isinstance(answer.log_dirs, Unknown):
        return answer.log_dirs
    absent = Unknown(f"no online log directory of b{broker} holds it")
    return answer.log_dirs.get(partition, absent)


def _online(reading: ReplicaReading, log_dir: LogDir | Unknown) -> bool | Unknown:
    """A replica that answers is online; one that does not may sit in an offline directory."""
    if isinstance(reading.log_dir_online, Unknown) and isinstance(log_dir, LogDir):
        return log_dir.online
    return reading.log_dir_online


def _all_groups(answers: Mapping[int, BrokerAnswer]) -> GroupOffsets | Unknown:
    """Every coordinator's groups; a coordinator that did not tell leaves the rest standing."""
    told = [one.group_offsets for one in answers.values() if known(one.group_offsets)]
    if not told:
        reasons = [
            one.group_offsets.reason
            for one in answers.values()
            if isinstance(one.group_offsets, Unknown)
        ]
        return Unknown(reasons[0] if reasons else "no broker answers")
    merged: GroupOffsets = {}
    for groups in told:
        for partition, committed in groups.items():
            merged.setdefault(partition, {}).update(committed)
    return merged


def _floor(
    replicas: Sequence[ReplicaLog], committed: Mapping[str, int] | Unknown
) -> tuple[int | Unknown, str]:
    """The highest offset that is known to have existed, and what tells so (R11)."""
    bounds = [
        (log.high_watermark, f"high watermark of b{log.broker}")
        for log in replicas
        if isinstance(log.high_watermark, int)
    ]
    if not isinstance(committed, Unknown):
        bounds += [(offset, f"group {group}") for group, offset in committed.items()]
    if not bounds:
        return Unknown("no high watermark and no committed offset is known"), ""
    return max(bounds)
