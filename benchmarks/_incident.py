"""A generated incident of many topics, served on loopback by a process of its own.

Half of the partitions are of one topic and come back whole with broker 3. The other half are of
23 topics, whose partitions lose nothing, lose some, need a decision or come back whole.

Answers take the generated brokers far longer than real ones. So a replay stands before one of them:
it passes on a new request, and repeats the answer to one that it has answered.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.kafka.wire.passing import read_frame, send_frame
from breakglass.services.model import PartitionState, TopicPartition
from tests.kit.fake_cluster import FakeCluster, partitions_of
from tests.kit.fake_metadata import Story

LEADER_NOT_AVAILABLE = 5
VERSIONS = 0, 8
"""In newer ones librdkafka 2.16 sends bytes after the request's end."""


def serve_metadata(cluster: FakeCluster) -> None:
    """Let every broker of *cluster* answer Metadata."""
    for broker in cluster.brokers.values():
        broker.serve(MetadataRequest, lambda asked: _answer(cluster.story, asked), VERSIONS)


def _answer(story: Story, request: Any) -> Any:
    wanted = request.topics
    named = None if wanted is None else {one.name for one in wanted}
    held = sorted(state for state in story.states if named is None or state.topic in named)
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=broker, host=address.host, port=address.port
            )
            for broker, address in story.addresses.items()
            if broker not in story.fenced
        ],
        cluster_id=story.cluster_id,
        controller_id=1,
        topics=[
            _topic(name, [story.states[partition] for partition in partitions])
            for name, partitions in groupby(held, _topic_of)
        ],
    )


def _topic_of(partition: TopicPartition) -> str:
    return partition.topic


def _topic(name: str, states: list[PartitionState]) -> Any:
    topic_class = MetadataResponse.MetadataResponseTopic
    partition_class = topic_class.MetadataResponsePartition
    return topic_class(
        name=name,
        topic_id=states[0].topic_id,
        partitions=[
            partition_class(
                error_code=LEADER_NOT_AVAILABLE,
                partition_index=state.partition.partition,
                leader_id=-1,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.assignment),
                isr_nodes=list(state.isr),
                offline_replicas=list(state.offline_replicas),
            )
            for state in states
        ],
    )


def description_of(states: Iterable[PartitionState]) -> Callable[[], Any]:
    """Decodes, by kafka-python, the answer that has the metadata of *states*."""
    held = sorted(states, key=lambda state: (state.partition.topic, state.partition.partition))
    answer = MetadataResponse(
        version=VERSIONS[1],
        brokers=[],
        cluster_id="",
        controller_id=1,
        topics=[
            _topic(name, list(together))
            for name, together in groupby(held, lambda state: state.partition.topic)
        ],
    )
    body = answer.encode()
    return lambda: MetadataResponse.decode(body, version=VERSIONS[1])


CORRELATION = slice(4, 8)
"""Where a request has its correlation id; an answer begins with it."""


class Replay:
    """Listens on loopback for one broker; a context manager that ends its threads.

    For stories that do not change, and requests that change nothing.
    """

    def __init__(self, broker: Endpoint) -> None:
        self._broker = broker
        self._answers: dict[bytes, bytes] = {}
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = Endpoint(*self._listener.getsockname()[:2])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        address = self._broker.host, self._broker.port
        with connection, contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with socket.create_connection(address) as broker:
                while (request := read_frame(connection)) is not None:
                    # What follows the correlation id in the answer. Raises ConnectionError.
                    asked = request[: CORRELATION.start] + request[CORRELATION.stop :]
                    if asked not in self._answers:
                        send_frame(broker, request)
                        answer = read_frame(broker)
                        if answer is None:
                            raise ConnectionResetError("the broker hung up")
                        self._answers[asked] = answer[4:]
                    send_frame(connection, request[CORRELATION] + self._answers[asked])


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
