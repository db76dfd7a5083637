"""What a recovery must leave as it was: settings of topics and brokers, orders of assignments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource, ConfigSource
from confluent_kafka.admin._resource import ResourceType

from breakglass.bookkeeping.folders import Name
from breakglass.bookkeeping.producer import QUIET

SECONDS = 10.0
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
    cluster = admin.list_topics(timeout=SECONDS)
    topics = sorted(cluster.topics)
    orders: dict[Name, tuple[int, ...]] = {}
    leaders: dict[Name, int | None] = {}
    described = admin.describe_topics(TopicCollection(topics), request_timeout=SECONDS)
    for topic, answer in described.items():
        for partition in answer.result(SECONDS).partitions:
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
        entries = answer.result(SECONDS)
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
