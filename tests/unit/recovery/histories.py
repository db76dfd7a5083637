"""Replica logs as real clusters leave them: leaders append, followers truncate and copy.

Every log is kept record by record beside what the product gets to see, so that it can be
counted by hand. Elections may be unclean and brokers may stay behind, so forks arise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby

from hypothesis import strategies as st

from breakglass.services.model import EpochHistory, EpochRange, PartitionEvidence, ReplicaLog
from tests.unit.recovery.replicas import log, offline

Record = tuple[int, int]
"""(epoch, offset)"""


@dataclass
class Disk:
    """One broker's log; *epochs* has the epoch of every offset from 0, deleted ones included."""

    broker: int
    epochs: list[int] = field(default_factory=list)
    start: int = 0
    hw: int = 0

    @property
    def end(self) -> int:
        return len(self.epochs)

    @property
    def records(self) -> set[Record]:
        return {(self.epochs[offset], offset) for offset in range(self.start, self.end)}

    def replica(self) -> ReplicaLog:
        ends = [
            (epoch, max(offset for _, offset in group) + 1)
            for epoch, group in groupby(sorted(self.records), key=lambda record: record[0])
        ]
        return log(self.broker, *ends, start=self.start, hw=self.hw, end=self.end)

    def follow(self, led: Disk, count: int) -> None:
        """Truncate to the leader's lineage, raise the log start, copy up to *count* records."""
        common = first_difference(led.epochs, self.epochs)
        if common < led.start:
            self.epochs, self.start = led.epochs[: led.start], led.start
        else:
            self.start = min(max(self.start, led.start), common)
            self.epochs = self.epochs[:common]
        self.epochs += led.epochs[self.end : self.end + count]
        self.hw = max(self.start, min(led.hw, self.end))

    def expire(self, count: int) -> None:
        """Retention: each broker deletes for itself, never above its high watermark."""
        self.start = max(self.start, min(self.hw, self.start + count))


@dataclass
class SimulatedCluster:
    """Four brokers and one partition."""

    disks: list[Disk]
    leader: int = 0
    epoch: int = 0

    def elect(self, place: int) -> None:
        self.leader, self.epoch = place, self.epoch + 1

    def append(self, count: int) -> None:
        self.disks[self.leader].epochs += [self.epoch] * count

    def commit(self, count: int) -> None:
        led = self.disks[self.leader]
        led.hw = min(led.end, led.hw + count)

    def expire(self, place: int, count: int) -> None:
        self.disks[place].expire(count)

    def follow(self, place: int, count: int) -> None:
        if place != self.leader:
            self.disks[place].follow(self.disks[self.leader], count)

    @property
    def records(self) -> set[Record]:
        return set().union(*(disk.records for disk in self.disks))

    def lost_without(self, chosen: Disk) -> set[Record]:
        """What is lost if *chosen* leads: records that only other disks hold."""
        others = (disk.records for disk in self.disks if disk is not chosen)
        return set().union(*others) - chosen.records

    def evidence(self) -> PartitionEvidence:
        return offline(*(disk.replica() for disk in self.disks))


def first_difference(one: list[int], other: list[int]) -> int:
    """How far the two logs are the same."""
    for offset, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return offset
    return min(len(one), len(other))


_places = st.integers(0, 3)
_counts = st.integers(1, 4)
_steps = st.one_of(
    st.tuples(st.just("append"), _counts),
    st.tuples(st.just("append"), _counts),
    st.tuples(st.just("commit"), _counts),
    st.tuples(st.just("elect"), _places),
    st.tuples(st.just("follow"), _places, _counts),
    st.tuples(st.just("follow"), _places, _counts),
    st.tuples(st.just("expire"), _places, _counts),
)


@st.composite
def simulated_clusters(draw: st.DrawFn) -> SimulatedCluster:
    """Clusters after up to fifty steps of leading, following, electing and expiring."""
    cluster = SimulatedCluster([Disk(broker) for broker in (1, 2, 3, 4)])
    for name, *arguments in draw(st.lists(_steps, min_size=4, max_size=50)):
        getattr(cluster, name)(*arguments)
    return cluster


def with_recent_epochs(replica: ReplicaLog, count: int) -> ReplicaLog:
    """*replica* with only the newest *count* epochs of its history read."""
    assert isinstance(replica.epochs, EpochHistory)
    kept: tuple[EpochRange, ...] = replica.epochs.ranges[-count:]
    if len(kept) == len(replica.epochs.ranges):
        return replica
    return replace(replica, epochs=EpochHistory(kept, kept[0].start))
