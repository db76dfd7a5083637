"""What consumer groups committed, asked of every coordinator beside the replicas (R11, R17, R19).

A group's coordinator may hold no replica of what is offline, so all live brokers are asked.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection, Container, Iterable

from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.cluster.group_offsets import (
    CommittedOffsets,
    GroupOffsets,
    describing,
    read_committed,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import ClusterSnapshot, PartitionState, TopicPartition, Unknown

OFFSETS_TOPIC = "__consumer_offsets"
LOOK_SECONDS = 2.0


class GroupBounds:
    """Committed offsets of some partitions, as they come in; a thread for each broker."""

    def __init__(
        self,
        client: ReadClient,
        snapshot: ClusterSnapshot,
        wanted: Collection[TopicPartition],
        deadline: Deadline,
        unasked: Container[int] = (),
    ) -> None:
        self._client, self._snapshot, self._deadline = client, snapshot, deadline
        self._wanted = frozenset(wanted)
        live = {one.id for one in snapshot.brokers if one.fenced is not True}
        self._running = {one for one in live if one not in unasked}
        self._finished: queue.SimpleQueue[tuple[int, CommittedOffsets]] = queue.SimpleQueue()
        self._told: list[CommittedOffsets] = []
        self._offline: Unknown | None = None

    def start(self) -> None:
        """Begin to ask; what depends on the offsets' own topic is looked up at once."""
        for broker in self._running:
            threading.Thread(target=self._read, args=(broker,), daemon=True).start()
        self._offline = self._offsets_offline()

    def wait(self, moment: Deadline) -> None:
        """Take what is told until all have told, or *moment* has come."""
        while self._running:
            try:
                broker, told = self._finished.get(timeout=max(moment.remaining(), 0.001))
            except queue.Empty:
                return
            self._running.discard(broker)
            self._told.append(told)

    @property
    def told(self) -> GroupOffsets | Unknown:
        """Committed offsets by partition and group, of all coordinators that have told by now.

        Unknown while `__consumer_offsets` is offline, or when no coordinator has told.
        """
        self.wait(Deadline.after(0))
        return self._offline or merged([one.offsets for one in self._told])

    @property
    def missing_acls(self) -> frozenset[str]:
        """What this user needs to be told of groups that are hidden from it."""
        return frozenset(describing(group) for one in self._told for group in one.hidden)

    def _read(self, broker: int) -> None:
        self._finished.put((broker, self._offsets_of(broker)))

    def _offsets_of(self, broker: int) -> CommittedOffsets:
        return read_committed(self._client.sender, broker, self._wanted, self._deadline)

    def _offsets_offline(self) -> Unknown | None:
        """Why nothing can be said of groups: their coordinators cannot be loaded (R17)."""
        for state in self._offsets_partitions():
            if state.offline:
                return Unknown(f"{state.partition} is offline, so not all groups can be asked")
        return None

    def _offsets_partitions(self) -> Iterable[PartitionState]:
        """From the snapshot, or asked for where that is of other topics alone."""
        held = [one for one in self._snapshot.partitions if one.partition.topic == OFFSETS_TOPIC]
        if held:
            return held
        try:
            return self._client.partitions([OFFSETS_TOPIC], self._deadline.sooner(LOOK_SECONDS))
        except BreakglassError:
            # Who may not describe the topic is still told by the coordinators what they know.
            return ()


def merged(told: Iterable[GroupOffsets | Unknown]) -> GroupOffsets | Unknown:
    """All that coordinators told; Unknown with the first reason when none did."""
    everything: GroupOffsets = {}
    refusals: list[Unknown] = []
    answered = False
    for one in told:
        if isinstance(one, Unknown):
            refusals.append(one)
            continue
        answered = True
        for partition, committed in one.items():
            everything.setdefault(partition, {}).update(committed)
    if answered:
        return everything
    return refusals[0] if refusals else Unknown("no broker listed its groups")
