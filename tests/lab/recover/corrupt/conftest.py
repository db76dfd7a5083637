"""One lab with a topic for each kind of log: b1 led last and is gone, b2 holds 120, b3 100 whole.

b2 was stopped in good order, so that it does not look through its logs when it starts; a batch of
most topics is damaged on its disk meanwhile.
"""

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
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
ROLLED, TAIL = "rolled", "tail"
"""One of several segments; one whose damage lies in what b3 lacks."""
PLAIN = (FLIPPED, FLIPPED_TOO, WHOLE, TAIL)


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
    small = [partition(topic) for topic in PLAIN]
    for partitions, size in ((small, 200), (large, LARGE)):
        pattern = Pattern(start=start, per_batch=PER_BATCH, value_bytes=size)
        produce_each(cluster, dict.fromkeys(partitions, count), pattern=pattern)


def _damage(node: Node) -> None:
    places = {**dict.fromkeys((FLIPPED, FLIPPED_TOO, ROLLED), CORRUPT), TAIL: FIRST + PER_BATCH}
    for topic, offset in places.items():
        folder = node.partition_folder(topic, 0)
        assert folder is not None, f"b{node.id} holds no {topic}"
        _flip(folder, offset)


def _flip(folder: Path, offset: int) -> None:
    """Turn over the bits of a byte in the batch that begins at *offset*."""
    for segment in sorted(folder.glob("*.log")):
        data = segment.read_bytes()
        # Where each batch of a segment begins and ends.
        places = [0]
        while places[-1] + 12 <= len(data):
            (length,) = struct.unpack_from(">i", data, places[-1] + 8)
            if length <= 0:
                break
            places.append(places[-1] + 12 + length)
        for start, end in list(pairwise(places)):
            if struct.unpack_from(">q", data, start)[0] == offset:
                with segment.open("r+b") as file:
                    file.seek(end - 5)
                    file.write(bytes([data[end - 5] ^ 0xFF]))
                return
    raise AssertionError(f"no batch of {folder} begins at {offset}")


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("contents")
    with Cluster.up(folder, brokers=3, tethered=True, overrides=QUICK_TO_FENCE) as cluster:
        for topic in PLAIN:
            create_topic(cluster, topic, [[1, 2, 3]])
        create_topic(cluster, ROLLED, [[1, 2, 3]], {"segment.bytes": "1048576"})
        _write(cluster, FIRST, 0)
        lose(cluster, 3)
        _write(cluster, MORE, FIRST)
        cluster.broker(2).stop()
        wait_left(cluster, 2)
        _damage(cluster.broker(2))
        lose_last(cluster, 1, back=[2, 3])
        with reading(cluster) as client:
            yield Lab(cluster, client)
