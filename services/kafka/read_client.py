"""The read-only client: it reads the cluster's snapshot and each broker's replicas.

A snapshot reuses the previous snapshot's answers if their bytes are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from breakglass.services import patience
from breakglass.services.clock import now_ms
from breakglass.services.kafka.cluster.describe_cluster import (
    describe_cluster,
    describe_quorum,
    heard_by_controllers,
    require_same_cluster,
)
from breakglass.services.kafka.cluster.log_dirs import read_log_dirs
from breakglass.services.kafka.cluster.partitions import (
    Pages,
    read_newest_partitions,
    read_partitions,
    read_reassignments,
)
from breakglass.services.kafka.cluster.settings import (
    SettingsAnswer,
    read_controllers,
    read_listener,
    read_topic_settings,
    settings_answer,
)
from breakglass.services.kafka.replicas.replica_reader import ReplicaReader
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import (
    LogDir,
    PartitionState,
    Reassignment,
    Silent,
    TopicPartition,
    TopicSettings,
    Unknown,
)
from breakglass.services.snapshot import ClusterDescription, ClusterSnapshot

if TYPE_CHECKING:
    from breakglass.services.kafka.replicas.contents import ContentsReader
    from breakglass.services.kafka.replicas.limits import Allowance
    from breakglass.services.kafka.wire.messages.kip1275 import ReplicaLogInfoMessages


K = TypeVar("K")
V = TypeVar("V")


class Last(Generic[K, V]):
    """The last value that was made, and the key that it was made from."""

    def __init__(self) -> None:
        self._held: tuple[K, V] | None = None

    def of(self, key: K, make: Callable[[K], V]) -> V:
        """The value of *key*: the last value if the key is the same."""
        if self._held is None or self._held[0] != key:
            self._held = (key, make(key))
        return self._held[1]


class SnapshotMemory:
    """The answers to one question that is repeated; not for use by two threads."""

    def __init__(self) -> None:
        self.pages = Pages()
        self.topics: Last[tuple[tuple[PartitionState, ...]], tuple[str, ...]] = Last()
        """Those with offline partitions; a tuple within a tuple is compared as one value."""
        self.settings: Last[tuple[str, ...], SettingsAnswer] = Last()
        self.moving: Last[
            tuple[tuple[PartitionState, ...], dict[TopicPartition, Reassignment] | Unknown],
            tuple[PartitionState, ...],
        ] = Last()


MOST_OTHERS = 8
"""Brokers that are asked whether the controllers answer them."""
SILENT_SECONDS = 30.0
"""After the controllers answered none of them, until they are asked again."""


class ReadClient:
    """Reads through one `Sender`, whose allow-list decides what this session may send.

    With *listener* every broker is reached on its listener of that name, as it advertises it.
    """

    def __init__(self, sender: Sender, listener: str | None = None) -> None:
        self.sender = sender
        self._listener = listener
        self._silent_until = 0.0
        self._controllers: str | None = None
        """The controllers by the brokers' settings; None: not asked yet."""

    def describe(self, deadline: Deadline) -> ClusterDescription:
        """Brokers and cluster id; learns the brokers' addresses.

        Raises:
            Unreachable: no bootstrap server answers.
            WrongCluster: the addresses lead to another cluster than this session has read.
        """
        description = describe_cluster(self.sender, deadline)
        while self.sender.misled(description.cluster_id):
            description = describe_cluster(self.sender, deadline)
        require_same_cluster(
            self.sender.cluster_id or description.cluster_id, description.cluster_id
        )
        self.sender.learn(description.brokers, description.cluster_id)
        if self._listener is not None:
            found = read_listener(self.sender, description.live, self._listener, deadline)
            self.sender.override(found)
        return description

    def describe_for_changes(self, deadline: Deadline) -> ClusterDescription:
        """`describe`, and let a broker that the controllers answer be the one that is asked.

        A change that goes to a broker that is cut off from them has no answer.

        Raises Unreachable: no bootstrap server answers.
        """
        found = self.describe(deadline)
        if isinstance(describe_quorum(self.sender, deadline), Silent):
            self._ask_another(found, deadline)
        return found

    def snapshot(
        self,
        deadline: Deadline,
        topics: Sequence[str] = (),
        only: Collection[TopicPartition] = (),
        memory: SnapshotMemory | None = None,
        *,
        with_settings: bool = True,
    ) -> ClusterSnapshot:
        """The cluster now: brokers, quorum, partitions of *topics* (all by default).

        With *only*, other partitions may be left out. Settings are read for topics with offline
        partitions, unless the caller needs none. The quorum and the reassignments are read in
        parallel, and are Unknown if the controller answers no broker. With the *memory* of earlier
        snapshots of the same topics, unchanged answers are reused: `partitions` is the same tuple
        if no partition changed.

        Raises:
            Unreachable: no broker serves its metadata.
            NotAuthorized: a named topic may not be described.
        """
        held = memory or SnapshotMemory()
        found = self._snapshot(deadline, topics, only, held, with_settings)
        if isinstance(found.quorum, Silent) and self._ask_another(found.description, deadline):
            return self._snapshot(deadline, topics, only, held, with_settings)
        if isinstance(found.quorum, Silent):
            return replace(found, quorum=self._named(found.quorum, found.description, deadline))
        return found

    def _named(self, silent: Silent, known: ClusterDescription, deadline: Deadline) -> Silent:
        """The silence of the quorum, with the controllers that brokers are configured with."""
        if self._controllers is None:
            self._controllers = read_controllers(self.sender, known.live, deadline)
        if not self._controllers:
            return silent
        return Silent(f"{silent.reason} (controllers: {self._controllers})")

    def _ask_another(self, known: ClusterDescription, deadline: Deadline) -> bool:
        """Ask a broker from now on that the controllers answer; False if there is none.

        The broker that was asked may be cut off from them, and what it knows may be old.
        """
        if time.monotonic() < self._silent_until:
            return False
        order = sorted(known.brokers, key=lambda broker: (broker.fenced is True, broker.id))
        brokers = [broker.id for broker in order[:MOST_OTHERS]]
        limit = deadline.sooner(patience.ROLL_CALL)
        found = heard_by_controllers(self.sender, brokers, limit)
        if found is None:
            self._silent_until = time.monotonic() + SILENT_SECONDS
            return False
        self.sender.stand_in(found)
        return True

    def _snapshot(
        self,
        deadline: Deadline,
        topics: Sequence[str],
        only: Collection[TopicPartition],
        held: SnapshotMemory,
        with_settings: bool,
    ) -> ClusterSnapshot:
        description = self.describe(deadline.sooner(patience.REQUEST))
        with ThreadPoolExecutor(2, "controller") as controller:
            quorum = controller.submit(describe_quorum, self.sender, deadline)
            moving = controller.submit(read_reassignments, self.sender, deadline)
            partitions = read_partitions(self.sender, deadline, topics, only, held.pages)
            limit = deadline.sooner(patience.REQUEST)
            settings = self._settings(partitions, limit, held) if with_settings else {}
            return ClusterSnapshot(
                description=description,
                quorum=quorum.result(),
                partitions=held.moving.of((partitions, moving.result()), _with_reassignments),
                observed_at_ms=now_ms(),
                settings=settings,
            )

    def partitions(
        self, topics: Sequence[str], deadline: Deadline, only: Collection[TopicPartition] = ()
    ) -> tuple[PartitionState, ...]:
        """The partitions of *topics* by the brokers' current metadata; *only* as in `snapshot`."""
        return read_partitions(self.sender, deadline, topics, only)

    def newest_partitions(
        self, topics: Sequence[str], deadline: Deadline, only: Collection[TopicPartition] = ()
    ) -> tuple[PartitionState, ...]:
        """As `partitions`; every broker is asked for those that have no leader.

        The broker that answers first may be cut off from its controllers, with old metadata.
        """
        states = self.partitions(topics, deadline, only)
        if not any(state.offline for state in states):
            return states
        brokers = [broker.id for broker in self.describe(deadline).brokers]
        return read_newest_partitions(self.sender, states, brokers, deadline)

    def partitions_and_moves(
        self, topics: Sequence[str], deadline: Deadline, only: Collection[TopicPartition] = ()
    ) -> tuple[PartitionState, ...]:
        """The partitions with the reassignments under way, which the controller answers."""
        with ThreadPoolExecutor(1, "controller") as controller:
            moving = controller.submit(read_reassignments, self.sender, deadline)
            partitions = self.partitions(topics, deadline, only)
            return _with_reassignments((partitions, moving.result()))

    def settings(self, topics: Sequence[str], deadline: Deadline) -> dict[str, TopicSettings]:
        return read_topic_settings(self.sender, deadline, topics) if topics else {}

    def _settings(
        self, partitions: tuple[PartitionState, ...], deadline: Deadline, held: SnapshotMemory
    ) -> dict[str, TopicSettings]:
        topics = held.topics.of((partitions,), _offline_topics)
        if not topics:
            return {}
        answer = held.settings.of(topics, lambda _: settings_answer())
        return read_topic_settings(self.sender, deadline, topics, answer)

    def replicas_on(
        self, broker: int, log_info: ReplicaLogInfoMessages | None = None
    ) -> ReplicaReader:
        """A reader of the replicas on *broker*; *log_info* if it supports GetReplicaLogInfo."""
        return ReplicaReader(self.sender, broker, log_info)

    def contents_on(
        self, broker: int, allowance: Allowance, stop: Callable[[], bool]
    ) -> ContentsReader:
        from breakglass.services.kafka.replicas.contents import ContentsReader

        return ContentsReader(self.sender, broker, allowance, stop)

    def log_dirs(
        self, broker: int, partitions: Sequence[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, LogDir]:
        """Where *broker* keeps its replicas of *partitions*.

        Raises:
            Unreachable: the broker did not answer.
            NotAuthorized: DESCRIBE on CLUSTER is missing.
        """
        return read_log_dirs(self.sender, broker, partitions, deadline)

    def close(self) -> None:
        """Close every connection, ending waits in other threads."""
        self.sender.close()


def _with_reassignments(
    read: tuple[tuple[PartitionState, ...], dict[TopicPartition, Reassignment] | Unknown],
) -> tuple[PartitionState, ...]:
    partitions, moving = read
    if isinstance(moving, Unknown):
        return tuple(replace(partition, reassignment=moving) for partition in partitions)
    if not moving:
        return partitions
    return tuple(
        replace(partition, reassignment=moving[partition.partition])
        if partition.partition in moving
        else partition
        for partition in partitions
    )


def _offline_topics(read: tuple[tuple[PartitionState, ...]]) -> tuple[str, ...]:
    return tuple(sorted({state.partition.topic for state in read[0] if state.leader is None}))
