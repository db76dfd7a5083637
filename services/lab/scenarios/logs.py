"""Waiting for what the replicas' segments hold on disk."""

from __future__ import annotations

from collections.abc import Callable

from services.lab.cluster import Cluster
from services.lab.segments import DiskLog, read_log
from services.model import TopicPartition


def wait_log_end(cluster: Cluster, partition: TopicPartition, end: int, *brokers: int) -> None:
    """Wait until the logs of *brokers* end at *end*."""
    what = f"the logs of {partition} on {brokers} to end at {end}"
    _wait(cluster, partition, brokers, lambda log: log.end == end, what)


def wait_records(cluster: Cluster, partition: TopicPartition, count: int, *brokers: int) -> None:
    """Wait until *brokers* hold exactly *count* records, the others being compacted away."""
    what = f"{count} records of {partition} to be left on {brokers}"
    _wait(cluster, partition, brokers, lambda log: len(log.identities) == count, what)


def _wait(
    cluster: Cluster,
    partition: TopicPartition,
    brokers: tuple[int, ...],
    condition: Callable[[DiskLog], bool],
    what: str,
) -> None:
    def holds() -> bool:
        return all(condition(_log(cluster, partition, broker)) for broker in brokers)

    cluster.wait_until(holds, what)


def _log(cluster: Cluster, partition: TopicPartition, broker: int) -> DiskLog:
    folder = cluster.broker(broker).partition_folder(partition.topic, partition.partition)
    while True:
        try:
            return read_log(folder)
        except FileNotFoundError:
            # The log cleaner swapped a segment meanwhile: its successor is there already.
            continue
