"""Reads a command topic's current id, settings and log range, and judges its dangers.

A consumer notices no change of these (M4, M5), so a separate connection reads them. A setting is
the effective value with its source; a setting that the topic lacks is the broker's default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple
from uuid import UUID

from breakglass.services import patience
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
from breakglass.services.metastore.events import Event
from breakglass.services.model import TopicPartition, Unknown

PARTITION = 0
RETENTION_TIME, RETENTION_BYTES, CLEANUP = "retention.ms", "retention.bytes", "cleanup.policy"
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
"""The source of a setting (DescribeConfigsResponse.ConfigSource)."""


class Setting(NamedTuple):
    """The effective value, and its source."""

    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class TopicState:
    """The state of an existing command topic."""

    topic_id: str
    leader: int | None
    partitions: int
    settings: Mapping[str, Setting]
    log_start: int | Unknown
    stable_end: int | Unknown
    """The offset after the last record that read_committed consumers get."""
    replicas: int = 0
    leader_epoch: int = -1


def read_topic_state(sender: Sender, topic: str, deadline: Deadline) -> TopicState | None:
    """Read *topic*; None if it does not exist.

    If the leader does not answer, only the values that it alone knows are Unknown.

    Raises:
        Unreachable: no broker answers.
        NotAuthorized, ClusterError: the user is not authorized to describe the topic.
    """
    partitions = read_partitions(sender, deadline, [topic])
    if not partitions:
        return None
    first = partitions[0]
    settings = read_settings(sender, topic, deadline)
    if settings is None:
        return None
    start, end = _extent(sender, topic, first.leader, deadline.sooner(patience.LEADER))
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
    """The log start and the end of what consumers can read, from the leader."""
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
    """The effective watched settings of *topic*; None if it does not exist.

    Raises: Unreachable, NotAuthorized, ClusterError.
    """
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeConfigsResponse,
        settings_request,
    )

    request = settings_request(TOPIC_RESOURCE, [topic], list(WATCHED))
    (result,) = sender.call(ANY_BROKER, request, DescribeConfigsResponse, deadline).results
    if result.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return None
    if result.error_code:
        doing, needs = f"reading the settings of {topic}", f"DESCRIBE_CONFIGS on topic {topic}"
        raise cluster_error(result.error_code, doing, needs, result.error_message)
    return {config.name: _setting(config) for config in result.configs}


def offset_at(
    sender: Sender, topic: str, leader: int, which: int, deadline: Deadline
) -> int | Unknown:
    """The log start (EARLIEST), or the last stable offset (LATEST), from the leader.

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
    """The offset after the last record for read_committed consumers. Raises: Unreachable."""
    return offset_at(sender, topic, leader, LATEST, deadline)


def topic_id_at(sender: Sender, topic: str, leader: int, deadline: Deadline) -> str | None:
    """The leader's own id of *topic*, of which it serves the records; None: no such topic.

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


FOREVER = "-1"
DELETE_POLICY = "delete"


class Danger(StrEnum):
    """The kind of a danger."""

    RETENTION_TIME = "retention.ms"
    RETENTION_BYTES = "retention.bytes"
    CLEANUP_POLICY = "cleanup.policy"
    RECORDS_DELETED = "records deleted"
    TOPIC_MISSING = "topic missing"
    TOPIC_RECREATED = "topic recreated"
    PARTITIONS = "partitions"
    WATCH_BLIND = "watch blind"
    LOG_CUT = "log cut"


@dataclass(frozen=True, slots=True)
class Alarm(Event):
    """An event that loses commands, or has already lost them."""

    kind: ClassVar[str] = "alarm"
    danger: Danger
    message: str
    evidence: dict[str, Any] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return self.message


def log_cut(topic: str, what: str) -> Alarm:
    """The alarm for a log that lost commands after they were read."""
    return Alarm(
        Danger.LOG_CUT,
        f"the log of topic {topic} was cut back at an election, and what was cut off was in the "
        f"backup: {what}. Compare topic and backup before a ksqlDB server starts",
    )


def dangers(state: TopicState | None, topic: str, topic_id: str | None) -> Iterator[Alarm]:
    """The dangers of *topic*; *topic_id* is its expected id.

    None: any; then a topic that does not exist is no danger, for its name may be a mistake.
    """
    if state is None:
        if topic_id is None:
            return
        yield Alarm(
            Danger.TOPIC_MISSING,
            f"topic {topic} is gone: stop every ksqlDB server of the service before one creates it "
            "empty, then `breakglass metastore restore`",
            {"topic_id": topic_id},
        )
        return
    if topic_id is not None and state.topic_id != topic_id:
        yield Alarm(
            Danger.TOPIC_RECREATED,
            f"topic {topic} was deleted and created again: its id is {state.topic_id}, and the "
            f"backup is of {topic_id}",
            {"topic_id": state.topic_id, "before": topic_id},
        )
    yield from _settings(state, topic)
    yield from _log(state, topic)


def _settings(state: TopicState, topic: str) -> Iterator[Alarm]:
    wanted = (
        (RETENTION_TIME, FOREVER, Danger.RETENTION_TIME),
        (RETENTION_BYTES, FOREVER, Danger.RETENTION_BYTES),
        (CLEANUP, DELETE_POLICY, Danger.CLEANUP_POLICY),
    )
    for name, good, danger in wanted:
        held = state.settings.get(name)
        if held is not None and held.value is not None and held.value != good:
            yield _unsafe(topic, name, held, good, danger)


def _unsafe(topic: str, name: str, held: Setting, good: str, danger: Danger) -> Alarm:
    does = "keeps the last command of each id alone" if name == CLEANUP else "removes commands"
    return Alarm(
        danger,
        f"topic {topic} has {name}={held.value} ({held.source}), which {does}: set it to {good}",
        {"setting": name, "value": held.value, "source": held.source},
    )


def _log(state: TopicState, topic: str) -> Iterator[Alarm]:
    start = state.log_start
    if isinstance(start, int) and start > 0:
        yield Alarm(
            Danger.RECORDS_DELETED,
            f"topic {topic} begins at offset {start:,}: what was before was deleted, so a server "
            "that starts now rebuilds something else",
            {"log_start": start},
        )
    if state.partitions != 1:
        yield Alarm(
            Danger.PARTITIONS,
            f"topic {topic} has {state.partitions} partitions and a command topic has one: only "
            "partition 0 is read",
            {"partitions": state.partitions},
        )
