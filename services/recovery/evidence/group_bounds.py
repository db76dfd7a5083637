"""What consumer groups committed, asked of every coordinator beside the replicas (R11, R17, R19).

A group's coordinator may hold no replica of what is offline, so all live brokers are asked.
A partition of `__consumer_offsets` that is offline hides its own groups and no others (R33).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection, Container, Iterable

from breakglass.services import patience
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.cluster.group_offsets import (
    OFFSETS_TOPIC,
    CommittedOffsets,
    GroupOffsets,
    describing,
    groups_unknown,
    read_committed,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import PartitionState, TopicPartition, Unknown
from breakglass.services.recovery.evidence.reports import Wait, next_report
from breakglass.services.snapshot import ClusterSnapshot


class GroupBounds:
    """Committed offsets of some partitions, collected with a thread for each broker."""

    def __init__(
        self,
        client: ReadClient,
        snapshot: ClusterSnapshot,
        wanted: Collection[TopicPartition],
        deadline: Deadline,
        unasked: Container[int] = (),
        wait: Wait = next_report,
    ) -> None:
        self._client, self._snapshot, self._deadline = client, snapshot, deadline
        self._wait = wait
        self._wanted = frozenset(wanted)
        self._running = {broker for broker in snapshot.live if broker not in unasked}
        self._unasked = {broker for broker in snapshot.live if broker in unasked}
        self._finished: queue.SimpleQueue[tuple[int, CommittedOffsets]] = queue.SimpleQueue()
        self._heard: dict[int, CommittedOffsets] = {}
        self._offline: tuple[TopicPartition, ...] = ()

    def start(self) -> None:
        """Begin to ask; what depends on the offsets' own topic is looked up at once."""
        for broker in self._running:
            threading.Thread(target=self._read, args=(broker,), daemon=True).start()
        self._offline = tuple(
            state.partition for state in self._offsets_partitions() if state.offline
        )

    def wait(self, moment: Deadline) -> None:
        """Take answers until all coordinators have answered, or *moment* has come."""
        while self._running:
            try:
                broker, answer = self._wait(self._finished, moment)
            except queue.Empty:
                return
            self._running.discard(broker)
            self._heard[broker] = answer

    @property
    def heard(self) -> GroupOffsets | Unknown:
        """Committed offsets by partition and group, of all coordinators that have answered by now.

        Unknown when no coordinator has answered.
        """
        self.wait(Deadline.after(0))
        return merged(answer.offsets for answer in self._heard.values())

    @property
    def unread(self) -> tuple[str, ...]:
        """Which groups `heard` may lack, each with the reason; empty where it has them all."""
        reasons = [groups_unknown(self._offline)] if self._offline else []
        for broker in sorted({*self._heard, *self._running, *self._unasked}):
            answer = self._heard.get(broker)
            if answer is None:
                why = "it has not answered"
            else:
                offsets = answer.offsets
                why = offsets.reason if isinstance(offsets, Unknown) else answer.unready
            if why:
                reasons.append(f"groups that b{broker} coordinates are not known: {why}")
        return tuple(reasons)

    @property
    def missing_acls(self) -> frozenset[str]:
        """The rights that this user lacks to read groups that are hidden from it."""
        return frozenset(
            describing(group) for answer in self._heard.values() for group in answer.hidden
        )

    def _read(self, broker: int) -> None:
        self._finished.put(
            (broker, read_committed(self._client.sender, broker, self._wanted, self._deadline))
        )

    def _offsets_partitions(self) -> Iterable[PartitionState]:
        """The states of the offsets topic: from the snapshot, or read where it lacks the topic."""
        states = [
            state for state in self._snapshot.partitions if state.partition.topic == OFFSETS_TOPIC
        ]
        if states:
            return states
        try:
            return self._client.partitions([OFFSETS_TOPIC], self._deadline.sooner(patience.LOOK))
        except BreakglassError:
            # A user that may not describe the topic still gets answers from coordinators.
            return ()


def merged(answers: Iterable[GroupOffsets | Unknown]) -> GroupOffsets | Unknown:
    """All answers of coordinators in one; Unknown with the first reason when none did."""
    everything: GroupOffsets = {}
    refusals: list[Unknown] = []
    answered = False
    for answer in answers:
        if isinstance(answer, Unknown):
            refusals.append(answer)
            continue
        answered = True
        for partition, committed in answer.items():
            everything.setdefault(partition, {}).update(committed)
    if answered:
        return everything
    return refusals[0] if refusals else Unknown("no broker listed its groups")
