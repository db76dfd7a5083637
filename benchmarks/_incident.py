"""A generated incident of many topics, served on loopback by a process of its own.

Half of the partitions are of one topic and come back whole with broker 3. The other half are of
23 topics, whose partitions lose nothing, lose some, need a decision or come back whole.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks._metadata import serve_metadata
from benchmarks._replay import Replay
from breakglass.services.model import TopicPartition
from tests.kit.fake_cluster import FakeCluster, partitions_of

PAGE = 2000
"""Partitions in one answer of a real broker (max.request.partition.size.limit)."""
LARGEST = "orders"
OTHERS = tuple(f"topic-{number:02}" for number in range(1, 24))
AWAY = 3
"""The broker that is down."""


class Kind(NamedTuple):
    """What partitions of one verdict look like."""

    assignment: tuple[int, ...]
    elr: tuple[int, ...]
    first: tuple[tuple[int, int], ...]
    """What broker 1 holds: (epoch, records)."""
    second: tuple[tuple[int, int], ...]
    committed: int | None = None
    """Broker 2's high watermark; None: all it holds."""


WAIT = Kind((3, 1, 2), (3,), ((0, 3),), ((0, 2),))
LOSS = Kind((1, 2), (), ((0, 100), (2, 25)), ((0, 100), (1, 50)), 100)
SAFE = Kind((1, 2), (), ((0, 3),), ((0, 2),))
FORK = Kind((1, 2), (), ((0, 100), (2, 25)), ((0, 100), (1, 50)))
KINDS = (LOSS, SAFE, FORK, WAIT)


class Served(NamedTuple):
    """A cluster that can be asked."""

    address: str
    folder: Path
    """For what the benchmark itself writes."""


@contextmanager
def incident_served(count: int) -> Iterator[Served]:
    """A cluster with *count* offline partitions."""
    command = [sys.executable, "-m", "benchmarks._incident", str(count)]
    pipe = subprocess.PIPE
    with (
        TemporaryDirectory(prefix="breakglass-bench-") as folder,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        if not address:
            raise RuntimeError("the generated cluster did not start: nothing was measured")
        yield Served(address, Path(folder))
        server.stdin.close()


def tell(cluster: FakeCluster, count: int) -> None:
    """Give *cluster* the story."""
    cluster.story.page = PAGE
    cluster.story.fenced = {AWAY}
    for partition, kind in _partitions(count):
        cluster.story.offline(partition, kind.assignment, elr=kind.elr)
        cluster.hold(1, partition, *kind.first)
        cluster.hold(2, partition, *kind.second).high_watermark = kind.committed


def _partitions(count: int) -> Iterator[tuple[TopicPartition, Kind]]:
    half = count // 2
    yield from ((partition, WAIT) for partition in partitions_of(LARGEST, count - half))
    for place, topic in enumerate(OTHERS):
        size = half // len(OTHERS) + (place < half % len(OTHERS))
        kind = KINDS[place % len(KINDS)]
        yield from ((partition, kind) for partition in partitions_of(topic, size))


def _serve(count: int) -> None:
    """Print the address; end when stdin does."""
    with FakeCluster() as cluster, ExitStack() as stack:
        tell(cluster, count)
        serve_metadata(cluster)
        cluster.brokers[AWAY].stop()
        for broker in set(cluster.brokers) - {AWAY}:
            replay = stack.enter_context(Replay(cluster.brokers[broker].endpoint))
            cluster.story.addresses[broker] = replay.endpoint
        print(cluster.story.addresses[1], flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
