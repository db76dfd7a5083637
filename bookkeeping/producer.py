"""The campaign's producers, the book of what they were promised, and what must stay as it was.

A recovery must leave settings of topics and brokers and the orders of assignments as they were.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource, ConfigSource
from confluent_kafka.admin._resource import ResourceType

from breakglass.bookkeeping.log_files import Name

SECONDS = 10.0
COORDINATOR_SECONDS = 120.0
"""Until a cluster that nobody has asked for a transaction has made its topic for them."""
QUIET = logging.getLogger(__name__)
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


@dataclass(frozen=True, slots=True)
class AcknowledgedRecord:
    """One record that a leader took."""

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes
    acks: str


@dataclass(slots=True)
class Book:
    """Everything that was acknowledged or committed, in order."""

    servers: str
    acked: list[AcknowledgedRecord] = field(default_factory=list)
    failed: int = 0
    """Records that were given up; some may be in a log all the same."""
    commits: dict[Name, dict[int, int]] = field(default_factory=dict)
    """Each offset that a group committed, and how many of `acked` were there when it last did."""
    transactions: list[Any] = field(default_factory=list)
    """Producers with an open transaction: dropped, they would abort it."""
    _written: int = 0

    def write(
        self,
        places: Collection[Name],
        count: int,
        *,
        acks: str = "all",
        compression: str = "none",
        timestamp_ms: int = 0,
        keys: int | None = None,
    ) -> None:
        """Write *count* records to each of *places*; of compacted topics, under *keys* keys."""
        if places:
            producer = self._producer(acks, compression)
            self._send(producer, places, count, acks, timestamp_ms, keys)
            producer.flush(SECONDS)

    def transact(
        self, places: Collection[Name], count: int, end: str, *, timestamp_ms: int = 0
    ) -> bool:
        """The same in a transaction that is committed, aborted or left open; whether it was."""
        if not places:
            return False
        producer = self._producer("all", "none", {"transactional.id": f"writer-{self._written}"})
        try:
            producer.init_transactions(COORDINATOR_SECONDS)
            producer.begin_transaction()
            self._send(producer, places, count, "all", timestamp_ms, None)
            producer.flush(SECONDS)
            if end == "commit":
                producer.commit_transaction(SECONDS)
            elif end == "abort":
                producer.abort_transaction(SECONDS)
            else:
                self.transactions.append(producer)
        except KafkaException:
            self.transactions.append(producer)
            return False
        return True

    def commit(self, group: str, ends: dict[Name, int], epochs: dict[Name, int]) -> bool:
        """Let *group* commit *ends*, with leader epochs; whether its coordinator took them."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group}, logger=QUIET)
        try:
            offsets = [
                Place(*name, end, leader_epoch=epochs.get(name, -1)) for name, end in ends.items()
            ]
            for _ in range(3):
                try:
                    consumer.commit(offsets=offsets, asynchronous=False)
                except KafkaException as error:
                    if not error.args[0].retriable():
                        return False
                else:
                    for name, end in ends.items():
                        self.commits.setdefault(name, {})[end] = len(self.acked)
                    return True
            return False
        finally:
            consumer.close()

    def _producer(self, acks: str, compression: str, more: dict[str, str] | None = None) -> Any:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "acks": acks,
            "enable.idempotence": acks == "all",
            "compression.type": compression,
            "message.timeout.ms": int(SECONDS * 1000) - 2000,
            "linger.ms": 5,
            "retry.backoff.ms": 50,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "reconnect.backoff.max.ms": 200,
            **(more or {}),
        }
        if "transactional.id" in settings:
            settings["transaction.timeout.ms"] = 600_000
        return Producer(settings, logger=QUIET)

    def _send(
        self,
        producer: Any,
        places: Collection[Name],
        count: int,
        acks: str,
        timestamp_ms: int,
        keys: int | None,
    ) -> None:
        for topic, partition in places:
            for number in range(count):
                self._written += 1
                key = f"k-{number % keys}" if keys else f"r-{self._written}"
                producer.produce(
                    topic,
                    partition=partition,
                    key=key.encode(),
                    value=f"{self._written}@{topic}-{partition}".encode(),
                    timestamp=timestamp_ms,
                    on_delivery=self._report(acks),
                )
                producer.poll(0)

    def _report(self, acks: str) -> Any:
        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None or message.offset() is None or message.offset() < 0:
                self.failed += 1
                return
            self.acked.append(
                AcknowledgedRecord(
                    message.topic(),
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                    acks,
                )
            )

        return delivered

    def ever_ended_at(self, name: Name) -> int:
        """One past the last offset of a partition that was ever acknowledged or committed."""
        ends: list[int] = [
            record.offset + 1 for record in self.acked if (record.topic, record.partition) == name
        ]
        return max([0, *self.commits.get(name, {}), *ends])

    def committed(self, group: str) -> dict[Name, int]:
        """Where *group* stands now, of the partitions on which it ever committed.

        Raises:
            KafkaException: its coordinator does not answer.
        """
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": group}, logger=QUIET)
        try:
            told = consumer.committed([Place(*name) for name in self.commits], SECONDS)
        finally:
            consumer.close()
        found: dict[Name, int] = {}
        for place in told:
            if place.error is None and place.offset >= 0:
                found[place.topic, place.partition] = place.offset
        return found


ADMIN_SECONDS = 10.0
BROKER_SECONDS = 3.0
TRIES = 5
DYNAMIC = ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG")


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What brokers say of topics and of themselves."""

    configs: Mapping[str, Mapping[str, str]]
    """Settings that were made on topics and on brokers that answered, by resource."""
    orders: Mapping[Name, tuple[int, ...]]
    """The replicas of each partition, in the order of its assignment."""
    leaders: Mapping[Name, int | None]


def read_cluster(servers: str) -> ClusterState:
    """Ask the brokers.

    Raises:
        KafkaException: none answered, or not in time.
    """
    failure: KafkaException | TimeoutError | None = None
    for _ in range(TRIES):
        admin = AdminClient({"bootstrap.servers": servers, "socket.timeout.ms": 5000}, logger=QUIET)
        try:
            return _read(admin)
        except (KafkaException, TimeoutError) as error:
            failure = error
    raise KafkaException(f"no broker reported its settings: {failure}") from failure


def _read(admin: Any) -> ClusterState:
    cluster = admin.list_topics(timeout=ADMIN_SECONDS)
    topics = sorted(cluster.topics)
    orders: dict[Name, tuple[int, ...]] = {}
    leaders: dict[Name, int | None] = {}
    described = admin.describe_topics(TopicCollection(topics), request_timeout=ADMIN_SECONDS)
    for topic, answer in described.items():
        for partition in answer.result(ADMIN_SECONDS).partitions:
            replicas = tuple(node.id for node in partition.replicas)
            orders[topic, partition.id] = replicas
            leader = partition.leader
            leaders[topic, partition.id] = None if leader is None or leader.id < 0 else leader.id
    configs = {}
    for topic in topics:
        answered = _configs(admin, ConfigResource(ResourceType.TOPIC, topic))
        if answered is None:
            raise KafkaException(f"the settings of {topic} could not be read")
        configs[f"topic {topic}"] = answered
    for broker in sorted(cluster.brokers):
        answered = _configs(admin, ConfigResource(ResourceType.BROKER, str(broker)))
        if answered is not None:
            configs[f"broker {broker}"] = answered
    return ClusterState(configs, orders, leaders)


def _configs(admin: Any, resource: Any) -> dict[str, str] | None:
    """What was set on *resource*; None where nobody answers."""
    (answer,) = admin.describe_configs([resource], request_timeout=BROKER_SECONDS).values()
    try:
        entries = answer.result(ADMIN_SECONDS)
    except (KafkaException, TimeoutError):
        return None
    return {
        name: str(entry.value)
        for name, entry in sorted(entries.items())
        if ConfigSource(entry.source).name in DYNAMIC
    }


def changes(before: ClusterState, after: ClusterState) -> list[str]:
    """A sentence for each setting and each order that is not as it was."""
    found = []
    for resource in sorted(before.configs.keys() & after.configs.keys()):
        was, now = before.configs[resource], after.configs[resource]
        for name in sorted({*was, *now}):
            if was.get(name) != now.get(name):
                found.append(f"{resource}: {name} was {was.get(name)}, is {now.get(name)}")
    for (topic, number), order in sorted(before.orders.items()):
        now_order = after.orders.get((topic, number))
        if now_order != order:
            found.append(f"{topic}-{number}: its order was {order}, is {now_order}")
    return found
