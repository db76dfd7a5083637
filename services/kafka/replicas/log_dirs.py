"""Log directories of a broker's replicas: offline or not, size, unfinished moves (R21)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from breakglass.services.kafka.wire.broker_errors import cluster_error, denied
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.grouping import by_topic
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import LogDir, TopicPartition, Unknown


def read_log_dirs(
    sender: Sender, broker: int, partitions: Iterable[TopicPartition], deadline: Deadline
) -> dict[TopicPartition, LogDir]:
    """Where *broker* keeps its replicas of *partitions*.

    A replica that no online directory holds is absent from the result.

    Raises:
        Unreachable: the broker did not answer before *deadline*.
        NotAuthorized: DESCRIBE on CLUSTER is missing.
    """
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeLogDirsRequest,
        DescribeLogDirsResponse,
    )

    topic_class = DescribeLogDirsRequest.DescribableLogDirTopic

    def topic(name: str, held: list[TopicPartition]) -> Any:
        return topic_class(topic=name, partitions=[one.partition for one in held])

    request = DescribeLogDirsRequest(topics=by_topic(partitions, topic))
    answer = sender.call(broker, request, DescribeLogDirsResponse, deadline, max_version=4)
    if answer.error_code or not answer.results:
        # Before version 3 a missing ACL is an empty answer; after, an error code.
        raise cluster_error(
            answer.error_code or 31, f"reading the log directories of b{broker}",
            "DESCRIBE on CLUSTER",
        )  # fmt: skip
    found: dict[TopicPartition, LogDir] = {}
    for result in answer.results:
        for name, one in _partitions(result):
            held = LogDir(
                result.log_dir, not result.error_code, one.partition_size, one.is_future_key
            )
            key = TopicPartition(name, one.partition_index)
            if not held.future or key not in found:
                found[key] = held
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


def _partitions(result: Any) -> Iterable[tuple[str, Any]]:
    return ((topic.name, one) for topic in result.topics for one in topic.partitions)
