"""Three fake brokers that elect, for commands: b3 led last and is dead, b1 holds more than b2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from breakglass.services.model import TopicPartition
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_controller import FakeController
from tests.kit.program import Ended, breakglass

RECORDS = {1: 100, 2: 70}


@dataclass(frozen=True)
class Fakes:
    """The brokers, and the program run against them."""

    cluster: FakeCluster
    controller: FakeController

    def offline(self, topic: str = "orders", count: int = 1) -> list[TopicPartition]:
        """Partitions without leader; b2 stands before b1 in their assignment."""
        partitions = [TopicPartition(topic, number) for number in range(count)]
        for partition in partitions:
            self.cluster.story.offline(partition, (3, 2, 1), last=(3,))
            for broker, records in RECORDS.items():
                self.cluster.hold(broker, partition, (0, records))
        return partitions

    def run(self, *arguments: object) -> Ended:
        """Run a command on this cluster."""
        servers = ",".join(str(self.cluster.brokers[record].endpoint) for record in RECORDS)
        return breakglass(
            *arguments, "--bootstrap-server", servers, "--recovery-duration-ms", 2_000
        )

    def leaders(self) -> dict[str, int | None]:
        """Who leads each partition."""
        return {str(name): one.leader for name, one in self.cluster.story.states.items()}


@contextmanager
def fakes() -> Iterator[Fakes]:
    """The cluster, ended afterwards."""
    with FakeCluster(3) as cluster:
        cluster.story.fenced = {3}
        yield Fakes(cluster, FakeController(cluster))
