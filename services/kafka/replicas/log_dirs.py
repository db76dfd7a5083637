"""Reads the log directories of a broker's replicas: online or not, size, unfinished moves (R21)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from breakglass.services.kafka.wire.broker_errors import cluster_error, denied
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.grouping import by_topic, unbelievable
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import LogDir, TopicPartition, Unknown

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
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
    )

    topic_class = DescribeLogDirsRequest.DescribableLogDirTopic

    def topic(name: str, held: list[TopicPartition]) -> Any:
        return topic_class(topic=name, partitions=[partition.partition for partition in held])

    wanted = set(partitions)
    request = DescribeLogDirsRequest(topics=by_topic(wanted, topic))
    answer = sender.call(broker, request, DescribeLogDirsResponse, deadline, max_version=4)
    if answer.error_code or not answer.results:
        # Before version 3 a missing ACL is an empty answer; after, an error code.
        raise cluster_error(
            answer.error_code or 31, f"reading the log directories of b{broker}",
            "DESCRIBE on CLUSTER",
        )  # fmt: skip
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
    return _together(logs, copies)


def _together(
    logs: Mapping[TopicPartition, LogDir], copies: Mapping[TopicPartition, LogDir]
) -> dict[TopicPartition, LogDir]:
    """Each log with its copy; a copy without its log has no lag.

    The broker reports INVALID_OFFSET_LAG, -1, for a copy without its log. For a copy with its log,
    -1 would mean that the copy is ahead (ReplicaManager.getLogEndOffsetLag).
    """
    found = {key: replace(held, copy=copies.get(key)) for key, held in logs.items()}
    for key, copy in copies.items():
        if key not in found:
            found[key] = replace(copy, behind=NO_LOG)
    return found


def offline_dirs(sender: Sender, broker: int, deadline: Deadline) -> tuple[str, ...] | Unknown:
    """The directories that *broker* has taken offline."""
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
    )

    request = DescribeLogDirsRequest(topics=[])
    answer = sender.call(broker, request, DescribeLogDirsResponse, deadline, max_version=4)
    if answer.error_code:
        return denied("DESCRIBE on CLUSTER")
    return tuple(result.log_dir for result in answer.results if result.error_code)
