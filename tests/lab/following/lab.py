"""Three brokers, each behind a proxy of its own, and a topic that they all keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.proxy import Proxy
from breakglass.services.lab.topics import create_topic, wait_in_sync
from breakglass.services.metastore.records import CommandRecord
from tests.lab.asking import NO_LOG
from tests.lab.metastore.topics import SETTINGS

SECONDS = 120.0
CONTROLLER = 101
BROKERS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Lab:
    """The cluster, and the network between it and its clients."""

    cluster: Cluster
    proxies: dict[int, Proxy]

    def leader(self, topic: str) -> int:
        """The broker that leads partition 0 of *topic* once somebody does."""
        found: list[int | None] = [None]

        def led() -> bool:
            found[0] = self.cluster.partition(topic, 0).leader
            return found[0] is not None and self.cluster.broker(found[0]).awake

        self.cluster.wait_until(led, f"a leader of {topic}")
        assert found[0] is not None
        return found[0]

    def create(self, topic: str, *brokers: int) -> None:
        """Create *topic* with one partition on *brokers*, on all of them by default."""
        create_topic(self.cluster, topic, [list(brokers or BROKERS)], SETTINGS)

    def whole(self, *topics: str) -> None:
        """Start and resume whatever is down, and wait until every replica is in sync."""
        for proxy in self.proxies.values():
            proxy.heal()
        for node in self.cluster.nodes:
            if node.paused:
                node.resume()
        self.cluster.start()
        if topics:
            wait_in_sync(self.cluster, *topics)


class Writer:
    """Writes each record once, through whatever happens to the brokers meanwhile.

    It has its producer id from the first record on: without a controller there is none to be had.
    """

    def __init__(self, lab: Lab, topic: str) -> None:
        settings = {
            "bootstrap.servers": lab.cluster.lab_bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
            "socket.timeout.ms": 5_000,
        }
        self._producer = Producer(settings, logger=NO_LOG)
        self._topic = topic

    def write(self, records: Sequence[CommandRecord]) -> None:
        """Return when all are acknowledged."""
        failed: list[object] = []

        def delivered(error: object, _: object) -> None:
            failed.extend([error] if error is not None else [])

        for record in records:
            self._producer.produce(
                self._topic, record.value, record.key, partition=0, on_delivery=delivered
            )
        left = self._producer.flush(SECONDS)
        assert (left, failed) == (0, [])


@contextmanager
def lab_in(folder: Path) -> Iterator[Lab]:
    """A lab that is taken down at the end."""
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster.plan(folder, tethered=True))
        proxies = {}
        for node in cluster.brokers:
            proxies[node.id] = stack.enter_context(Proxy(node.address(Listener.CLIENT)))
            cluster.advertise(node.id, proxies[node.id].address)
        cluster.start()
        yield Lab(cluster, proxies)
