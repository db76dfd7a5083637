"""The lab as one script sees it: topics and records made here are remembered for the truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from services.errors import LabError
from services.lab.cluster import Cluster
from services.lab.losses import count_choices
from services.lab.segments import DiskLog, read_log
from services.lab.truth import (
    Condition,
    Expectation,
    PartitionTruth,
    ReplicaTruth,
    Written,
)
from services.model import TopicPartition


class Stage:
    """What one scenario makes and writes on *cluster*."""

    def __init__(self, cluster: Cluster, scenario: str, options: Mapping[str, str]) -> None:
        self.cluster = cluster
        self.scenario = scenario
        self.options = options
        self.notes: dict[str, str] = {}
        """Facts of this scenario for its tests."""
        self._written: dict[TopicPartition, list[Written]] = {}
        self._disks: dict[tuple[int, TopicPartition | None], str] = {}

    def number(self, option: str) -> int:
        """An option that is a positive number.

        Raises:
            LabError: it is not.
        """
        text = self.options[option]
        if not text.isdecimal() or int(text) < 1:
            raise LabError(f"Option {option} of {self.scenario} is {text}: give a number above 0.")
        return int(text)

    def mark_disk(self, broker: int, state: str, partition: TopicPartition | None = None) -> None:
        """Note that a disk was ``replaced`` or ``failed``, for one partition or all."""
        self._disks[broker, partition] = state

    def record(self, partition: TopicPartition, written: Written) -> None:
        """Remember records that were acknowledged."""
        self._written.setdefault(partition, []).append(written)

    def truth(self, expectation: Expectation, assignment: Sequence[int]) -> PartitionTruth:
        """The partition as it is now, read from the disks of all its replicas."""
        partition = expectation.partition
        written = tuple(self._written.get(partition, ()))
        logs = {broker: self._log(broker, partition) for broker in assignment}
        replicas = tuple(self._replica(broker, partition, logs[broker]) for broker in assignment)
        return PartitionTruth(
            scenario=self.scenario,
            expectation=expectation,
            assignment=tuple(assignment),
            written=written,
            replicas=replicas,
            choices=count_choices(
                {broker: log.identities for broker, log in logs.items()},
                [replica.broker for replica in replicas if replica.readable],
                written,
            ),
        )

    def _log(self, broker: int, partition: TopicPartition) -> DiskLog:
        node = self.cluster.broker(broker)
        return read_log(node.partition_folder(partition.topic, partition.partition))

    def _replica(self, broker: int, partition: TopicPartition, log: DiskLog) -> ReplicaTruth:
        everywhere = self._disks.get((broker, None), "intact")
        disk = self._disks.get((broker, partition), everywhere)
        return ReplicaTruth(
            broker=broker,
            readable=condition(self.cluster, broker) is Condition.RUNNING and disk != "failed",
            log_start=log.start,
            log_end=log.end,
            epochs=log.epochs,
            records=len(log.identities),
            disk=disk,
        )


def condition(cluster: Cluster, broker: int) -> Condition:
    """What became of a broker."""
    node = cluster.broker(broker)
    if not node.running:
        return Condition.DEAD
    return Condition.PAUSED if node.paused else Condition.RUNNING
