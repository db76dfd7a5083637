"""Labs with thousands of offline partitions, real ones and generated ones."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryDirectory
from typing import NamedTuple

import psutil

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios import find_scenarios
from breakglass.services.lab.scenarios.behind import MANY_ORDERS, MANY_TOPIC, PARTITIONS
from breakglass.services.lab.scenarios.scenario import play, raise_lab
from breakglass.services.lab.truth import PartitionTruth, Truth
from breakglass.services.model import TopicPartition
from tests.kit.fake_cluster import FakeCluster, partitions_of
from tests.kit.fake_controller import FakeController

PAGE = 2000
"""Partitions in one answer of a real broker (max.request.partition.size.limit)."""
SPARE_BYTES = 4 * 1024**3
"""Of memory, for the processes that are measured."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it get random names
ROOM_BYTES = 8 << 30
SETTLE_SECONDS = 30.0
IDLE_SHARE = 0.2
"""Seconds of processor time in a second that all nodes together take when nobody asks them."""


class Many(NamedTuple):
    """A real cluster whose partitions are all offline, and what is true of them."""

    cluster: Cluster
    truth: Truth
    folder: Path
    """For what the benchmark itself writes."""

    @property
    def bootstrap(self) -> tuple[str, str]:
        """The option that every program of both sides takes."""
        return ("--bootstrap-server", self.cluster.bootstrap_servers)


@contextmanager
def many_offline(count: int) -> Iterator[Many]:
    """*count* partitions of three replicas, two of them alive and stale.

    In memory where there is room: how fast a disk flushes is nobody's figure.
    """
    with TemporaryDirectory(prefix="breakglass-bench-", dir=in_memory()) as folder:
        place = Path(folder)
        scenarios = find_scenarios(["many"])
        with raise_lab(place / "lab", scenarios, tethered=True) as cluster:
            truth = play(cluster, scenarios, {PARTITIONS: str(count)})
            _settle(cluster)
            work = place / "work"
            work.mkdir()
            yield Many(cluster, truth, work)


@contextmanager
def generated_offline(count: int) -> Iterator[FakeCluster]:
    """The same from brokers that make their answers up, on real sockets, in this process."""
    with FakeCluster() as cluster:
        FakeController(cluster)
        cluster.story.page = PAGE
        cluster.story.fenced = {3}
        for number, partition in enumerate(partitions_of(MANY_TOPIC, count)):
            cluster.story.offline(partition, MANY_ORDERS[number % 2], elr=(3,))
            cluster.hold(1, partition, (0, 3))
            cluster.hold(2, partition, (0, 2))
        cluster.brokers[3].stop()
        yield cluster


def readable_ends(truth: Iterable[PartitionTruth]) -> dict[tuple[str, int, int], tuple[int, int]]:
    """Log end and last written epoch by topic, partition and broker, of replicas alive."""
    return {
        (*_named(one.partition), replica.broker): (replica.log_end, replica.epochs[-1].epoch)
        for one in truth
        for replica in one.replicas
        if replica.readable
    }


def given_up(count: int) -> tuple[str, ...]:
    """Options that elect *count* of these without waiting for b3, which is dead."""
    return "--gone", "3", "--consent", f"{count:,} partitions lose 0 and abandon b3"


def write_partitions(partitions: Iterable[TopicPartition], path: Path) -> Path:
    """A file for ``kafka-unclean-recovery --path-to-json-file``."""
    numbers: dict[str, list[int]] = {}
    for partition in partitions:
        numbers.setdefault(partition.topic, []).append(partition.partition)
    topics = [{"topic": topic, "partitions": held} for topic, held in numbers.items()]
    path.write_text(json.dumps({"partitions": topics}), encoding="utf-8")
    return path


def write_elections(partitions: Iterable[TopicPartition], path: Path) -> Path:
    """A file for ``kafka-leader-election.sh --path-to-json-file``."""
    entries = [
        {"topic": partition.topic, "partition": partition.partition} for partition in partitions
    ]
    path.write_text(json.dumps({"partitions": entries}), encoding="utf-8")
    return path


def _settle(cluster: Cluster) -> None:
    """Wait until the nodes have done with the damage: what they still do would be measured too."""
    give_up = time.monotonic() + SETTLE_SECONDS
    nodes = [psutil.Process(node.pid) for node in cluster.nodes if node.pid is not None]
    spent = _spent(nodes)
    while time.monotonic() < give_up:
        time.sleep(1.0)
        before, spent = spent, _spent(nodes)
        if spent - before < IDLE_SHARE:
            return


def _spent(nodes: Iterable[psutil.Process]) -> float:
    """Seconds of processor time."""
    times = [node.cpu_times() for node in nodes]
    return sum(pcputimes.user + pcputimes.system for pcputimes in times)


def in_memory(needed: int = ROOM_BYTES) -> Path | None:
    """A folder without a disk below it; None: wherever temporary files go."""
    if not SHARED_MEMORY.is_dir():
        return None
    # What the folder may take can be more than there is: then the kernel ends a process.
    room = min(disk_usage(SHARED_MEMORY).free, psutil.virtual_memory().available - SPARE_BYTES)
    return SHARED_MEMORY if room > needed else None


def _named(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition
