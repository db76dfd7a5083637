"""The lab as one script sees it: topics and records made here are remembered for the truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

from breakglass.services.errors import LabError
from breakglass.services.lab.bulk import produce_bulk
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern, Produced, produce_each
from breakglass.services.lab.segments import DiskLog, read_log
from breakglass.services.lab.topics import create_topic
from breakglass.services.lab.truth import (
    Condition,
    CountedLoss,
    Expectation,
    PartitionTruth,
    ReplicaTruth,
    Written,
)
from breakglass.services.model import PartitionState, TopicPartition

Identity = tuple[int, int]
"""(leader epoch, offset)."""


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
        self._compacted: set[str] = set()

    def number(self, option: str) -> int:
        """An option that is a positive number.

        Raises:
            LabError: it is not.
        """
        text = self.options[option]
        if not text.isdecimal() or int(text) < 1:
            raise LabError(f"Option {option} of {self.scenario} is {text}: give a number above 0.")
        return int(text)

    def create(
        self,
        topic: str,
        assignments: Sequence[Sequence[int]],
        configs: Mapping[str, str] | None = None,
    ) -> tuple[TopicPartition, ...]:
        """Create *topic* with partition i on the brokers ``assignments[i]``, all in sync."""
        create_topic(self.cluster, topic, assignments, configs)
        if "compact" in (configs or {}).get("cleanup.policy", ""):
            self._compacted.add(topic)
        return tuple(TopicPartition(topic, number) for number in range(len(assignments)))

    def write(
        self,
        partitions: Sequence[TopicPartition],
        count: int,
        *,
        acks: str = "all",
        committed: bool | None = None,
    ) -> None:
        """Write *count* records to each partition and remember them.

        *committed* says whether every member of the ISR gets them; with acks=all it is so.
        """
        states = self._led(partitions)
        pattern = Pattern(start=max(self._written_to(partition) for partition in partitions))
        counts = dict.fromkeys(partitions, count)
        for partition, produced in produce_each(
            self.cluster, counts, acks=acks, pattern=pattern
        ).items():
            self._remember(produced, states[partition], committed)

    def write_bulk(self, partitions: Sequence[TopicPartition], count: int) -> None:
        """`write` for thousands of partitions, which hold equally many records, by few requests."""
        states = self._led(partitions)
        wanted = [states[partition] for partition in partitions]
        start = self._written_to(partitions[0])
        for partition, produced in produce_bulk(self.cluster, wanted, count, start=start).items():
            self._remember(produced, states[partition], committed=True)

    def wait_leader(self, partition: TopicPartition, broker: int) -> None:
        self.cluster.wait_partition(
            partition.topic,
            partition.partition,
            lambda state: state.leader == broker,
            f"broker {broker} to lead",
        )

    def wait_isr(self, partition: TopicPartition, *brokers: int) -> None:
        self.cluster.wait_partition(
            partition.topic,
            partition.partition,
            lambda state: set(state.isr) == set(brokers),
            f"brokers {brokers} to be in sync",
        )

    def mark_disk(self, broker: int, state: str, partition: TopicPartition | None = None) -> None:
        """Note that a disk was ``replaced`` or ``failed``, for one partition or all."""
        self._disks[broker, partition] = state

    def record(self, partition: TopicPartition, written: Written) -> None:
        """Remember records that were acknowledged, and written by other means than `write`."""
        self._written.setdefault(partition, []).append(written)

    def _led(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """The states of *partitions*, once each has a leader: a busy broker can be fenced briefly.

        Raises:
            LabError: a partition stays offline: write before it is lost.
        """
        states: dict[TopicPartition, PartitionState] = {}

        def led() -> bool:
            topics = {partition.topic for partition in partitions}
            states.update({state.partition: state for state in self.cluster.partitions(*topics)})
            return all(states[partition].leader is not None for partition in partitions)

        self.cluster.wait_until(led, "every partition to have a leader to write to")
        return states

    def _written_to(self, partition: TopicPartition) -> int:
        return sum(len(written.keys) for written in self._written.get(partition, ()))

    def _remember(self, produced: Produced, state: PartitionState, committed: bool | None) -> None:
        if state.leader is None:
            raise LabError(f"{state.partition} had no leader when it was written to.")
        written = Written(
            epoch=state.leader_epoch,
            start=produced.offsets[0],
            keys=tuple(record.key.decode() for record in produced.acked),
            acks=produced.acks,
            committed=produced.acks == "all" if committed is None else committed,
            broker=state.leader,
        )
        self.record(state.partition, written)

    def truth(self, expectation: Expectation, assignment: Sequence[int]) -> PartitionTruth:
        """The partition as it is now, read from the disks of all its replicas."""
        partition = expectation.partition
        written = tuple(self._written.get(partition, ()))
        logs = {broker: read_log(self._folder(broker, partition)) for broker in assignment}
        replicas = tuple(self._replica(broker, partition, logs[broker]) for broker in assignment)
        return PartitionTruth(
            scenario=self.scenario,
            expectation=expectation,
            assignment=tuple(assignment),
            written=written,
            replicas=replicas,
            choices=count_choices(
                {broker: self._held(partition, log) for broker, log in logs.items()},
                [replica.broker for replica in replicas if replica.readable],
                written,
            ),
        )

    def _held(self, partition: TopicPartition, log: DiskLog) -> frozenset[tuple[int, int]]:
        """What a replica holds; of a compacted log also what newer records in it replaced."""
        if partition.topic not in self._compacted:
            return log.identities
        return frozenset(
            (span.epoch, offset) for span in log.epochs for offset in range(span.start, span.end)
        )

    def _folder(self, broker: int, partition: TopicPartition) -> Path | None:
        node = self.cluster.broker(broker)
        return node.partition_folder(partition.topic, partition.partition)

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


def count_choices(
    held: Mapping[int, Set[Identity]], readable: Iterable[int], written: Iterable[Written]
) -> tuple[CountedLoss, ...]:
    """What electing each readable replica loses, counted record by record, in the order given.

    *held* has the records of every replica, by broker; those of brokers that are not *readable*
    count as unread.
    """
    choices = tuple(readable)
    written = tuple(written)
    committed = _identities(one for one in written if one.committed)
    acked = _identities(written)
    within_reach = _union(held[broker] for broker in choices)
    out_of_reach = _union(held.values()) - within_reach
    return tuple(
        CountedLoss(
            broker=broker,
            committed=len((within_reach - held[broker]) & committed),
            uncommitted=len((within_reach - held[broker]) - committed),
            unread=len(out_of_reach - held[broker]),
            acked=len(acked - held[broker]),
        )
        for broker in choices
    )


def _identities(written: Iterable[Written]) -> Set[Identity]:
    return frozenset((one.epoch, offset) for one in written for offset in range(one.start, one.end))


def _union(sets: Iterable[Set[Identity]]) -> Set[Identity]:
    return frozenset(identity for set_ in sets for identity in set_)
