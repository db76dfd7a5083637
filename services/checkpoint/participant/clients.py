"""The clients of confluent-kafka that a participant works with, and how they are set up."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from breakglass.services.checkpoint.participant.application import Guarantee, Input
from breakglass.services.errors import ClusterError, Unreachable
from breakglass.services.model import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
SECONDS = 30.0
NEVER = 0
"""librdkafka's word for a message that never times out."""


def make_consumer(connection: Mapping[str, Any], group: str, session_ms: int) -> Consumer:
    """A member of *group*, which commits by itself alone."""
    from confluent_kafka import Consumer

    settings = {
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "session.timeout.ms": session_ms,
        "partition.assignment.strategy": "roundrobin",
    }
    return Consumer({**settings, **connection}, logger=LOG)


def make_producer(
    connection: Mapping[str, Any], transactional_id: str | None, transaction_ms: int
) -> Producer:
    """A producer that writes in order without a gap; in transactions, if it has an id for them."""
    from confluent_kafka import Producer

    settings: dict[str, Any] = {"enable.idempotence": True, "linger.ms": 5}
    if transactional_id is None:
        # One that gives a record up goes on with the next, and readers take that one for both.
        settings |= {"message.timeout.ms": NEVER, "enable.gapless.guarantee": True}
    else:
        settings |= {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": transaction_ms,
        }
    return Producer({**settings, **connection}, logger=LOG)


def transactional_id(guarantee: Guarantee, group: str, member: str) -> str | None:
    """Of a member; None where it needs none."""
    return f"{group}-{member}" if guarantee is Guarantee.EXACTLY_ONCE else None


def read_stretch(
    connection: Mapping[str, Any], partition: TopicPartition, start: int | None, end: int | None
) -> Iterator[Message]:
    """The committed records of ``[start, end)``; by default from the log's start to its end.

    Raises:
        Unreachable: nothing comes in time.
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
    }
    at = OFFSET_BEGINNING if start is None else start
    with closing(Consumer({**settings, **connection}, logger=LOG)) as consumer:
        consumer.assign([Asked(partition.topic, partition.partition, at)])
        while True:
            message = consumer.poll(SECONDS)
            if message is None:
                raise Unreachable(f"{partition} cannot be read: see that its leader is there")
            if at_end(message):
                return
            offset = message.offset()
            if end is not None and offset is not None and offset >= end:
                return
            yield message


def at_end(message: Message) -> bool:
    """Whether it says that the log ends here.

    Raises:
        ClusterError: it says that something went wrong.
    """
    error: KafkaError | None = message.error()
    if error is None:
        return False
    if error.name() == "_PARTITION_EOF":
        return True
    raise ClusterError(f"{message.topic()} cannot be read ({error.str()}): see the broker's log")


def input_of(message: Message) -> Input:
    """The record in *message*."""
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
