"""Waiting for what replicas hold, on disk and in the minds of their brokers."""

from __future__ import annotations

from collections.abc import Callable

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.segments import DiskLog, read_log
from breakglass.services.lab.wire import Conversation
from breakglass.services.model import PartitionState, TopicPartition


def wait_log_end(cluster: Cluster, partition: TopicPartition, end: int, *brokers: int) -> None:
    """Wait until the logs of *brokers* end at *end*."""
    what = f"the logs of {partition} on {brokers} to end at {end}"
    _wait(cluster, partition, brokers, lambda log: log.end == end, what)


def wait_records(cluster: Cluster, partition: TopicPartition, count: int, *brokers: int) -> None:
    """Wait until *brokers* hold exactly *count* records, the others being compacted away."""
    what = f"{count} records of {partition} to be left on {brokers}"
    _wait(cluster, partition, brokers, lambda log: len(log.identities) == count, what)


def wait_high_watermark(
    cluster: Cluster, partition: TopicPartition, mark: int, *brokers: int
) -> None:
    """Wait until *brokers* have heard that the high watermark is *mark*."""
    state = cluster.partition(partition.topic, partition.partition)
    cluster.wait_until(
        lambda: all(
            cluster.read(lambda node: _high_watermark(node, state, mark), via=broker) == mark
            for broker in brokers
        ),
        f"the high watermark of {partition} on {brokers} to be {mark}",
    )


def _high_watermark(node: Conversation, state: PartitionState, offset: int) -> int:
    """As the replica on *node* has it; -1 while *offset* is past it."""
    from kafka.protocol.consumer import FetchRequest, FetchResponse

    topic_class = FetchRequest.FetchTopic
    wanted = topic_class.FetchPartition(
        partition=state.partition.partition, fetch_offset=offset, partition_max_bytes=1
    )
    topic = topic_class(topic=state.partition.topic, topic_id=state.topic_id, partitions=[wanted])
    answer = node.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), FetchResponse)
    return int(answer.responses[0].partitions[0].high_watermark)


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
            # The log cleaner has just replaced this segment: its successor is there already.
            continue
