"""Creates and configures the confluent-kafka clients of a participant."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from breakglass.services import patience
from breakglass.services.checkpoint.participant.application import Guarantee, Input
from breakglass.services.errors import ClusterError, Unreachable
from breakglass.services.model import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
NEVER = 0
"""librdkafka's value for a message that never times out."""


def make_consumer(connection: Mapping[str, Any], group: str, session_ms: int) -> Consumer:
    """A consumer in *group* whose offsets the caller alone commits."""
    from confluent_kafka import Consumer

    settings = {
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "check.crcs": True,
        "session.timeout.ms": session_ms,
        "partition.assignment.strategy": "roundrobin",
    }
    return Consumer({**settings, **connection}, logger=LOG)


def make_producer(
    connection: Mapping[str, Any], transactional_id: str | None, transaction_ms: int
) -> Producer:
    """A producer that writes in order without gaps; transactional if it has a transactional id."""
    from confluent_kafka import Producer

    settings: dict[str, Any] = {"enable.idempotence": True, "linger.ms": 5}
    if transactional_id is None:
        # A producer that drops a record sends the next one, and readers mistake it for the first.
        settings |= {"message.timeout.ms": NEVER, "enable.gapless.guarantee": True}
    else:
        settings |= {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": transaction_ms,
        }
    return Producer({**settings, **connection}, logger=LOG)


def transactional_id(guarantee: Guarantee, group: str, member: str) -> str | None:
    """The transactional id of a member; None if it needs no id."""
    return f"{group}-{member}" if guarantee is Guarantee.EXACTLY_ONCE else None


def read_stretch(
    connection: Mapping[str, Any], partition: TopicPartition, start: int | None, end: int | None
) -> Iterator[Message]:
    """The committed records of ``[start, end)``; by default from the log start to the log end.

    Raises:
        Unreachable: no record arrives in time.
        ClusterError: the broker refuses.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer
    from confluent_kafka import TopicPartition as Asked

    settings = {
        "group.id": "breakglass-replay",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "check.crcs": True,
    }
    at = OFFSET_BEGINNING if start is None else start
    with closing(Consumer({**settings, **connection}, logger=LOG)) as consumer:
        consumer.assign([Asked(partition.topic, partition.partition, at)])
        while True:
            message = consumer.poll(patience.COMMAND)
            if message is None:
                raise Unreachable(f"{partition} cannot be read: see that its leader is there")
            if at_end(message):
                return
            offset = message.offset()
            if end is not None and offset is not None and offset >= end:
                return
            yield message


def at_end(message: Message) -> bool:
    """Whether the message marks the end of the log.

    Raises:
        ClusterError: the message reports an error.
    """
    error: KafkaError | None = message.error()
    if error is None:
        return False
    if error.name() == "_PARTITION_EOF":
        return True
    raise ClusterError(f"{message.topic()} cannot be read ({error.str()}): see the broker's log")


def input_of(message: Message) -> Input:
    """The input record in *message*."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    kind, stamp = message.timestamp()
    return Input(
        TopicPartition(topic, partition),
        offset,
        _bytes(message.key()),
        _bytes(message.value()),
        tuple((pair[0], _bytes(pair[1])) for pair in message.headers() or ()),
        stamp if kind else None,
    )


def _bytes(value: object) -> bytes | None:
    return value if isinstance(value, bytes) else None
