"""Three fake brokers that elect, for commands: b3 led last and is dead, b1 holds more than b2."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from breakglass.services.model import TopicPartition
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_controller import FakeController
from tests.kit.program import Ended, breakglass

RECORDS = {1: 100, 2: 70}
HANG_MS = 600_000
"""How long brokers may take to answer: it only ends a hang."""
NOBODY = ("--bootstrap-server", "127.0.0.1:1")
"""Port 1 of loopback, where nobody listens."""


def offline_on(cluster: FakeCluster, topic: str, count: int) -> list[TopicPartition]:
    """Partitions without leader; b2 stands before b1 in their assignment."""
    partitions = [TopicPartition(topic, number) for number in range(count)]
    for partition in partitions:
        cluster.story.offline(partition, (3, 2, 1), last=(3,))
        for broker, records in RECORDS.items():
            cluster.hold(broker, partition, (0, records))
    return partitions


@dataclass(frozen=True)
class Fakes:
    cluster: FakeCluster
    controller: FakeController

    def offline(self, topic: str = "orders", count: int = 1) -> list[TopicPartition]:
        return offline_on(self.cluster, topic, count)

    @property
    def named(self) -> tuple[str, str]:
        servers = (str(self.cluster.brokers[broker].endpoint) for broker in RECORDS)
        return "--bootstrap-server", ",".join(servers)

    def run(self, *arguments: object) -> Ended:
        return breakglass(*arguments, *self.named, "--recovery-duration-ms", HANG_MS)

    def leaders(self) -> dict[str, int | None]:
        return {str(name): one.leader for name, one in self.cluster.story.states.items()}


@contextmanager
def fakes() -> Iterator[Fakes]:
    with FakeCluster(3) as cluster:
        cluster.story.fenced = {3}
        yield Fakes(cluster, FakeController(cluster))
