"""From the request of a checkpoint to its acknowledgement, with the coordinator running.

Markers in every partition and manifests in the store, both durable. Each size is held against the
smallest: what a partition costs has to stay the same.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks._measure import Options, meets, print_load
from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.kafka.topics import KafkaTopics
from breakglass.services.checkpoint.promises import CopySettings, WantedCheckpoint
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.session import Power, ReadAccess

PARTITIONS = 100
SHARES = (0.1, 1.0, 10.0)
RUNS = 5
SECONDS = 1.0
"""For so many partitions."""
LINEAR = 1.5
"""The dearest partition may cost so many times the cheapest, what is fixed left out."""


def main(options: Options) -> bool:
    """Print how long it takes at each size; returns whether both targets were met."""
    wanted, runs = options.partitions or PARTITIONS, options.runs or RUNS
    sizes = [max(1, int(wanted * share)) for share in SHARES]
    print(f"acknowledging a checkpoint, three brokers, {runs} times each")
    print_load()
    with (
        TemporaryDirectory(prefix="breakglass-bench-") as folder,
        Cluster.up(Path(folder) / "cluster", tethered=True) as cluster,
    ):
        found = [_measure(cluster, Path(folder), size, runs) for size in sizes]
    quick = meets(f"seconds for {sizes[1]:,} partitions", found[1], SECONDS)
    fixed = found[0]
    costs = [
        (took - fixed) / (size - sizes[0]) for size, took in zip(sizes[1:], found[1:], strict=True)
    ]
    return (
        meets("cost of a partition, the largest / the middle size", costs[1] / costs[0], LINEAR)
        and quick
    )


def _measure(cluster: Cluster, folder: Path, partitions: int, runs: int) -> float:
    """Median seconds from the request to its acknowledgement."""
    topic = f"of-{partitions}"
    turns = [[1 + number % 3] for number in range(partitions)]
    create_topic(cluster, topic, turns)
    options = ConnectionOptions(bootstrap_server=cluster.bootstrap_servers)
    access = ReadAccess(connection_settings(options))
    store = BackupStore(str(folder / "store" / topic))
    wanted = WantedCheckpoint(
        (topic,), level=Level.COORDINATED, how=CopySettings(control_topic=f"control-{topic}")
    )
    with access.reading() as client:
        cluster_id = client.describe(Deadline.after(30)).cluster_id
        with Power(access).markers(cluster_id) as markers:
            coordinator = Coordinator(store, KafkaTopics(client, markers, wanted))
            coordinator.take()
            spent = [_taken(coordinator) for _ in range(runs)]
    took = median(spent)
    each = took / partitions * 1000
    print(f"  {partitions:>6,} partitions   {took:6.3f} s   {each:6.2f} ms each")
    return took


def _taken(coordinator: Coordinator) -> float:
    began = perf_counter()
    coordinator.take()
    return perf_counter() - began
