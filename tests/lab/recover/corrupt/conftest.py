"""One lab with a topic for each kind of log: b1 led last and is gone, b2 holds 120, b3 100 whole.

b2 was stopped in good order, so that it does not look through its logs when it starts; a batch of
most topics is damaged on its disk meanwhile.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.node import Node
from breakglass.services.lab.produce import Pattern, produce_each
from breakglass.services.lab.scenarios.damage import lose, lose_last, wait_left
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.triage import Triage, triage
from tests.lab.recover.corrupt.damages import HEADER_FIELDS, damage_batch, flipped
from tests.lab.recover.session import reading

FIRST, MORE, PER_BATCH = 100, 20, 10
CORRUPT = 40
LOSING_B2, LOSING_B3 = 80, 20
"""What a choice costs: b2 is read up to 40 by its consumers, b3 lacks the last 20."""
LARGE = 20_000
"""Bytes of a record, so that a log has several segments and more than a reading's budget."""
QUICK_TO_FENCE = {
    "broker.session.timeout.ms": "4000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}

FLIPPED, FLIPPED_TOO, WHOLE = "flipped", "flipped-too", "whole"
TRANSACTIONAL = "transactional"
"""Holds a marker, a batch without data."""
COMPRESSED, ROLLED, EMPTY = "compressed", "rolled", "empty"
TAIL = "tail"
"""Its damage lies in what b3 lacks."""
PLAIN = (FLIPPED, FLIPPED_TOO, WHOLE, TAIL, *(f"header-{field}" for field in HEADER_FIELDS))
CONFIGS = {COMPRESSED: {"compression.type": "lz4"}, ROLLED: {"segment.bytes": "1048576"}}


class Lab(NamedTuple):
    """The brokers, and what a session reads of them."""

    cluster: Cluster
    client: ReadClient

    def judged(self, topic: str) -> Triage:
        """The last word of a triage of *topic*, for who knows that b1 is gone."""
        *_, found = triage(self.client, 20.0, topics=[topic], gone=[1])
        return found


def partition(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


def _write(cluster: Cluster, count: int, start: int) -> None:
    large = [partition(ROLLED)]
    small = [partition(topic) for topic in (*PLAIN, *CONFIGS) if topic != ROLLED]
    for partitions, size in ((small, 200), (large, LARGE)):
        pattern = Pattern(start=start, per_batch=PER_BATCH, value_bytes=size)
        produce_each(cluster, dict.fromkeys(partitions, count), pattern=pattern)


def _commit_a_transaction(cluster: Cluster) -> None:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": cluster.lab_bootstrap, "transactional.id": "contents"}
    producer = Producer(settings)
    producer.init_transactions(30.0)
    producer.begin_transaction()
    for number in range(PER_BATCH):
        producer.produce(TRANSACTIONAL, b"%d" % number, partition=0)
    producer.commit_transaction(30.0)


def _damage(node: Node) -> None:
    damages = {FLIPPED: flipped(-5), FLIPPED_TOO: flipped(-5), COMPRESSED: flipped(-5)}
    damages |= {ROLLED: flipped(-5)}
    damages |= {f"header-{field}": damage for field, damage in HEADER_FIELDS.items()}
    for topic, damage in damages.items():
        _damage_at(node, topic, CORRUPT, damage)
    _damage_at(node, TAIL, FIRST + PER_BATCH, flipped(-5))


def _damage_at(node: Node, topic: str, offset: int, damage: object) -> None:
    folder = node.partition_folder(topic, 0)
    assert folder is not None, f"b{node.id} holds no {topic}"
    damage_batch(folder, offset, damage)  # type: ignore[arg-type]


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("contents")
    with Cluster.up(folder, brokers=3, tethered=True, overrides=QUICK_TO_FENCE) as cluster:
        for topic in (*PLAIN, EMPTY, TRANSACTIONAL, *CONFIGS):
            create_topic(cluster, topic, [[1, 2, 3]], CONFIGS.get(topic))
        _write(cluster, FIRST, 0)
        _commit_a_transaction(cluster)
        lose(cluster, 3)
        _write(cluster, MORE, FIRST)
        cluster.broker(2).stop()
        wait_left(cluster, 2)
        _damage(cluster.broker(2))
        lose_last(cluster, 1, back=[2, 3])
        with reading(cluster) as client:
            yield Lab(cluster, client)
