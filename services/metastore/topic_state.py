"""What a command topic is right now: its id, its effective settings, where its log begins.

A consumer notices none of these changing (M4, M5), so they are asked for on a connection of their
own. A setting is what holds, with where it comes from: one that the topic does not have itself is
the broker's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from breakglass.services.errors import ClusterError, Unreachable
from breakglass.services.kafka.cluster.partitions import read_partitions
from breakglass.services.kafka.cluster.topic_settings import TOPIC_RESOURCE
from breakglass.services.kafka.replicas.list_offsets import (
    EARLIEST,
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    OffsetError,
    list_offsets,
)
from breakglass.services.kafka.wire.broker_errors import UNKNOWN_TOPIC_OR_PARTITION, cluster_error
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import TopicPartition, Unknown

PARTITION = 0
RETENTION_TIME, RETENTION_BYTES, CLEANUP = "retention.ms", "retention.bytes", "cleanup.policy"
LEADER_SECONDS = 3.0
"""How long the leader may take to say where its log begins and ends."""
WATCHED = (RETENTION_TIME, RETENTION_BYTES, CLEANUP)

SOURCES = {
    1: "topic",
    2: "broker",
    3: "cluster default",
    4: "broker's file",
    5: "Kafka's default",
    7: "client metrics",
    8: "group",
}
"""Where a setting comes from (DescribeConfigsResponse.ConfigSource)."""


class Setting(NamedTuple):
    """What holds, and where it is written."""

    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class TopicState:
    """One look at a command topic that exists."""

    topic_id: str
    leader: int | None
    partitions: int
    settings: Mapping[str, Setting]
    log_start: int | Unknown
    stable_end: int | Unknown
    """One past the last record that read_committed consumers get."""
    replicas: int = 0
    leader_epoch: int = -1


def read_topic_state(sender: Sender, topic: str, deadline: Deadline) -> TopicState | None:
    """Look at *topic*; None where it does not exist.

    What only the leader knows is Unknown where it does not answer: settings are then known still.

    Raises:
        Unreachable: no broker answers.
        NotAuthorized, ClusterError: it may not be described.
    """
    partitions = read_partitions(sender, deadline, [topic])
    if not partitions:
        return None
    first = partitions[0]
    settings = read_settings(sender, topic, deadline)
    if settings is None:
        return None
    start, end = _extent(sender, topic, first.leader, deadline.sooner(LEADER_SECONDS))
    return TopicState(
        str(first.topic_id),
        first.leader,
        len(partitions),
        settings,
        start,
        end,
        len(first.assignment),
        first.leader_epoch,
    )


def _extent(
    sender: Sender, topic: str, leader: int | None, deadline: Deadline
) -> tuple[int | Unknown, int | Unknown]:
    """Where the log begins and how far consumers can read it, as the leader tells."""
    if leader is None:
        unknown = Unknown("the topic has no leader")
        return unknown, unknown
    try:
        start = offset_at(sender, topic, leader, EARLIEST, deadline)
        return start, stable_end(sender, topic, leader, deadline)
    except Unreachable as error:
        unknown = Unknown(f"b{leader}, which leads the topic, cannot be asked: {error}")
        return unknown, unknown


def read_settings(sender: Sender, topic: str, deadline: Deadline) -> dict[str, Setting] | None:
    """The watched settings of *topic* as they hold; None where it does not exist.

    Raises: Unreachable, NotAuthorized, ClusterError.
    """
    from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse

    resource = DescribeConfigsRequest.DescribeConfigsResource
    asked = resource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=list(WATCHED)
    )
    request = DescribeConfigsRequest(resources=[asked])
    (result,) = sender.call(ANY_BROKER, request, DescribeConfigsResponse, deadline).results
    if result.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if result.error_code:
        doing, needs = f"reading the settings of {topic}", f"DESCRIBE_CONFIGS on topic {topic}"
        raise cluster_error(result.error_code, doing, needs, result.error_message)
    return {one.name: _setting(one) for one in result.configs}


def offset_at(
    sender: Sender, topic: str, leader: int, which: int, deadline: Deadline
) -> int | Unknown:
    """The log start (EARLIEST), or the last stable offset (LATEST), as the leader tells it.

    Raises: Unreachable.
    """
    partition = TopicPartition(topic, PARTITION)
    told = list_offsets(
        sender,
        leader,
        [partition],
        which,
        deadline,
        replica_id=LEADER_ONLY,
        isolation_level=READ_COMMITTED,
    )[partition]
    return told if isinstance(told, OffsetError) else told.offset


def stable_end(sender: Sender, topic: str, leader: int, deadline: Deadline) -> int | Unknown:
    """One past the last record that read_committed consumers get. Raises: Unreachable."""
    return offset_at(sender, topic, leader, LATEST, deadline)


def topic_id_at(sender: Sender, topic: str, leader: int, deadline: Deadline) -> str | None:
    """The id that the leader itself has for *topic*: what it serves is of that one; None: none.

    Raises: Unreachable, ClusterError.
    """
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

    wanted: Any = MetadataRequest.MetadataRequestTopic(name=topic)
    request = MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
    (told,) = sender.call(leader, request, MetadataResponse, deadline).topics
    if told.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if told.error_code:
        raise cluster_error(
            told.error_code, f"describing topic {topic}", f"DESCRIBE on topic {topic}"
        )
    if not isinstance(told.topic_id, UUID) or not told.topic_id.int:
        raise ClusterError(
            f"the brokers tell no id of topic {topic}, so a recreated one cannot be "
            "distinguished from it: Kafka 2.8 or newer is needed"
        )
    return str(told.topic_id)


def _setting(entry: Any) -> Setting:
    return Setting(entry.value, SOURCES.get(entry.config_source, "unknown"))
