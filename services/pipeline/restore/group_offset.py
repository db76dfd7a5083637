"""How far a restore came: the offset that its group has for a partition, read by librdkafka."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from services.errors import PipelineError
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.retry import until

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
MOVING = frozenset(
    {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "_TRANSPORT"}
)
"""Errors while a coordinator restarts, is being found, or still reads what it is to know."""


class CoordinatorAway(PipelineError):
    """The group's coordinator cannot answer yet."""

    retriable = True


def committed_offset(
    connection: Mapping[str, Any], group: str, partition: TopicPartition, seconds: float
) -> int | None:
    """The offset of *group*, whatever transaction is pending; None where it has none.

    It is asked of an admin client: a consumer that may not read its group waits all the time it
    has before it says so.

    Raises:
        PipelineError: the coordinator is still moving after so many *seconds*.
        KafkaException: the cluster refuses, or does not answer.
    """
    from confluent_kafka.admin import AdminClient

    client = AdminClient(dict(connection), logger=LOG)
    return until(Deadline.after(seconds), lambda: _read(client, group, partition, seconds))


def _read(client: Any, group: str, partition: TopicPartition, seconds: float) -> int | None:
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

    asked = ConsumerGroupTopicPartitions(group, [partition])
    (future,) = client.list_consumer_group_offsets([asked], request_timeout=seconds).values()
    try:
        (told,) = future.result().topic_partitions
        if told.error is not None:
            raise KafkaException(told.error)
    except KafkaException as error:
        if error.args[0].name() in MOVING:
            raise CoordinatorAway(
                f"the coordinator of {group} is not ready ({error.args[0].str()}): try again."
            ) from None
        raise
    return int(told.offset) if told.offset >= 0 else None
