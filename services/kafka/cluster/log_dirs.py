"""Reads a broker's log directories: online or not, how full, and which replicas they have (R21)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from breakglass.services.kafka.wire.answers import (
    CLUSTER_AUTHORIZATION_FAILED,
    by_topic,
    cluster_error,
    denied,
    describe_error,
    unbelievable,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import LogDir, TopicPartition, Unknown

NO_SIZES = Unknown("this broker does not tell the size of its volumes (before Kafka 3.3)")


@dataclass(frozen=True, slots=True)
class BrokerLogDir:
    """One log directory of one broker."""

    path: str
    why_offline: str = ""
    """The broker's error; empty while the directory is online."""
    total_bytes: int | Unknown = NO_SIZES
    """Size of the volume that the directory is on."""
    usable_bytes: int | Unknown = NO_SIZES

    @property
    def online(self) -> bool:
        return not self.why_offline


def read_broker_log_dirs(
    sender: Sender, broker: int, deadline: Deadline, lane: str = ""
) -> tuple[BrokerLogDir, ...]:
    """The log directories of *broker*, in the order of their paths (DescribeLogDirs, no topics).

    Raises:
        Unreachable: the broker did not answer before *deadline*.
        NotAuthorized: DESCRIBE on CLUSTER is missing.
    """
    answer = _described(sender, broker, (), deadline, lane)
    _require_allowed(answer, broker)
    return tuple(sorted(map(_log_dir, answer.results), key=lambda result: result.path))


def _described(
    sender: Sender,
    broker: int,
    partitions: Iterable[TopicPartition],
    deadline: Deadline,
    lane: str = "",
) -> Any:
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
    )

    topic_class = DescribeLogDirsRequest.DescribableLogDirTopic

    def topic(name: str, held: list[TopicPartition]) -> Any:
        return topic_class(topic=name, partitions=[partition.partition for partition in held])

    request = DescribeLogDirsRequest(topics=by_topic(partitions, topic))
    return sender.call(broker, request, DescribeLogDirsResponse, deadline, lane=lane, max_version=4)


def _require_allowed(answer: Any, broker: int) -> None:
    if answer.error_code or not answer.results:
        # Before version 3 a missing ACL is an empty answer; after, an error code.
        raise cluster_error(
            answer.error_code or CLUSTER_AUTHORIZATION_FAILED,
            f"reading the log directories of b{broker}",
            "DESCRIBE on CLUSTER",
        )


def _log_dir(result: Any) -> BrokerLogDir:
    why = describe_error(result.error_code) if result.error_code else ""
    return BrokerLogDir(
        result.log_dir, why, _bytes(result.total_bytes), _bytes(result.usable_bytes)
    )


def _bytes(value: int | None) -> int | Unknown:
    return NO_SIZES if value is None or value < 0 else value


NO_LOG = Unknown("no online log directory holds the log that it is a copy of")


def read_log_dirs(
    sender: Sender, broker: int, partitions: Iterable[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, LogDir]:
    """Where *broker* keeps its replicas of *partitions*, with the copies of unfinished moves.

    A replica in no online directory is absent from the result. If only the copy of its move is
    online, the result has the copy, as `LogDir.future`.

    Raises:
        Unreachable: the broker did not answer before *deadline*.
        NotAuthorized: DESCRIBE on CLUSTER is missing.
        MalformedMessage: the answer cannot be a broker's.
    """
    wanted = set(partitions)
    answer = _described(sender, broker, wanted, deadline)
    _require_allowed(answer, broker)
    logs: dict[TopicPartition, LogDir] = {}
    copies: dict[TopicPartition, LogDir] = {}
    for result in answer.results:
        for name, one in (
            (topic.name, partition) for topic in result.topics for partition in topic.partitions
        ):
            key = TopicPartition(name, one.partition_index)
            if key not in wanted or one.partition_size < 0:
                raise unbelievable(f"b{broker}", f"tells of {key}, with {one.partition_size} bytes")
            held = LogDir(result.log_dir, not result.error_code, one.partition_size)
            if one.is_future_key:
                copies[key] = replace(held, future=True, behind=one.offset_lag)
            else:
                logs[key] = held
    # The broker reports INVALID_OFFSET_LAG, -1, for a copy without its log. For a copy with its
    # log, -1 would mean that the copy is ahead (ReplicaManager.getLogEndOffsetLag).
    found = {key: replace(held, copy=copies.get(key)) for key, held in logs.items()}
    for key, copy in copies.items():
        if key not in found:
            found[key] = replace(copy, behind=NO_LOG)
    return found


def offline_dirs(sender: Sender, broker: int, deadline: Deadline) -> tuple[str, ...] | Unknown:
    """The directories that *broker* has taken offline."""
    answer = _described(sender, broker, (), deadline)
    if answer.error_code:
        return denied("DESCRIBE on CLUSTER")
    return tuple(result.log_dir for result in answer.results if result.error_code)
