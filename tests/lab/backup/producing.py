"""Records of every shape put into a topic, and what a client of its own reads of them.

The reader is librdkafka and the encoder is struct.pack: neither shares code with what they test.
"""

import itertools
import logging
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, cast

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition as KafkaPartition
from tests.kit.commits import commit_offsets
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.asking import messages

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
SECONDS = DEADLINE_SECONDS
LONGEST_MS = 2**63 - 1
FOR_EVER = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(LONGEST_MS)}

KEYS = (None, b"", b"k", bytes(range(256)))
HEADERS: tuple[list[tuple[str, bytes | None]], ...] = (
    [],
    [("a", b"1")],
    [("a", None), ("a", b"")],
    [("", b"x"), ("schlüssel€😀", b"\xff"), ("b", b"")],
    [(f"h{number}", bytes([number])) for number in range(4)],
    [(f"h{number}", None) for number in range(5)],
    [("x", b"y" * 300)] * 300,
)

Values = Mapping[str, Any]


def shapes() -> Iterator[Values]:
    """Null, empty and large of everything, in every combination."""
    cases = itertools.product(KEYS, (None, b"", b"v" * 10, b"\xff" * 70_000), HEADERS)
    for number, (key, value, headers) in enumerate(cases):
        yield {"key": key, "value": value, "headers": headers, "timestamp": 1 + number * 997}


def numbered(count: int, start: int = 0) -> Iterator[Values]:
    """Small records that can be told apart."""
    for number in range(start, start + count):
        yield {"key": b"k%d" % number, "value": b"v%d" % number}


def make(
    cluster: Cluster, topic: str, settings: Mapping[str, str] | None = None, *, partitions: int = 1
) -> None:
    """Create *topic* on the one broker."""
    create_topic(cluster, topic, [[1]] * partitions, {**FOR_EVER, **(settings or {})})


def producer(cluster: Cluster, **settings: Any) -> Producer:
    """A producer; ``transactional_id`` and others as keywords."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": cluster.bootstrap_servers, **given}, logger=LOG)


def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers}, logger=LOG)


def set_policy(cluster: Cluster, topic: str, policy: str) -> None:
    """Set cleanup.policy of *topic*."""
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    of = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    client = admin(cluster)
    client.incremental_alter_configs([of])[of].result(SECONDS)


def consumer(cluster: Cluster, group: str) -> Consumer:
    """A member of *group* that reads what is committed, from the beginning to the end."""
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            # At the end of a log a broker answers soon.
            "fetch.wait.max.ms": 10,
        },
        logger=LOG,
    )


def commit(cluster: Cluster, topic: str, group: str, offset: int, partition: int = 0) -> None:
    """Have *group* resume there."""
    with closing(consumer(cluster, group)) as member:
        commit_offsets(member, [TopicPartition(topic, partition, offset)])


def committed_offset(cluster: Cluster, topic: str, group: str, partition: int = 0) -> int:
    """Where *group* resumes."""
    with closing(consumer(cluster, group)) as member:
        (place,) = member.committed([TopicPartition(topic, partition)], SECONDS)
        return int(place.offset)


def next_value(cluster: Cluster, topic: str, group: str) -> bytes | None:
    """The record that *group* reads next; None at the end."""
    place = TopicPartition(topic, 0, committed_offset(cluster, topic, group))
    assert place.offset >= 0
    with closing(consumer(cluster, group)) as member:
        member.assign([place])
        message = member.poll(SECONDS)
        assert message is not None
        return None if message.error() else message.value()


def put(client: Producer, topic: str, values: Iterator[Values], partition: int = 0) -> None:
    """Produce *values* and see each of them acknowledged."""
    failed: list[object] = []

    def delivered(error: object, _: Message) -> None:
        if error is not None:
            failed.append(error)

    def sent(one: Values) -> bool:
        try:
            client.produce(topic, partition=partition, on_delivery=delivered, **one)
        except BufferError:
            client.poll(0.1)
            return False
        return True

    for one in values:
        while not sent(one):
            assert failed == []
    assert client.flush(SECONDS) == 0
    assert failed == []


def transact(
    client: Producer,
    topic: str,
    values: Iterator[Values],
    partition: int = 0,
    *,
    commit: bool = True,
) -> None:
    """Produce *values* in a transaction, which is aborted unless it is to *commit*."""
    client.begin_transaction()
    put(client, topic, values, partition)
    end = client.commit_transaction if commit else client.abort_transaction
    end(SECONDS)


def delete_before(cluster: Cluster, topic: str, offset: int, partition: int = 0) -> None:
    """Have the log of a partition begin at *offset*, as retention does."""
    cut = TopicPartition(topic, partition, offset)
    client = admin(cluster)  # Its futures end with it.
    client.delete_records([cut])[cut].result(SECONDS)


def produce(cluster: Cluster, topic: str, values: Iterator[Values], partition: int = 0) -> None:
    """Produce *values* by a producer of their own."""
    put(producer(cluster), topic, values, partition)


def committed_bytes(cluster: Cluster, topic: str, partition: int = 0) -> bytes:
    """Every committed record of a partition as Kafka Backup writes it."""
    return b"".join(_encoded(message) for message in committed_messages(cluster, topic, partition))


def committed_messages(cluster: Cluster, topic: str, partition: int) -> Iterator[Message]:
    """Every committed record of a partition, in order."""
    return messages(cluster, KafkaPartition(topic, partition))


def _encoded(message: Message) -> bytes:
    kind, stamp = message.timestamp()
    type_number = 1 if kind == TIMESTAMP_LOG_APPEND_TIME else 0
    headers = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    parts = [struct.pack(">qiq", message.offset(), type_number, stamp)]
    parts += [_content(message.key()), _content(message.value())]
    parts.append(struct.pack(">i", len(headers)))
    parts += [_content(key.encode()) + _content(value) for key, value in headers]
    return b"".join(parts)


def _content(value: Any) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
