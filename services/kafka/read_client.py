"""What a read-only session can ask a cluster: the snapshot, and each broker's replicas."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from breakglass.services.clock import now_ms
from breakglass.services.kafka.cluster.describe_cluster import describe_cluster, describe_quorum
from breakglass.services.kafka.cluster.listeners import read_listener
from breakglass.services.kafka.cluster.partitions import read_partitions
from breakglass.services.kafka.cluster.reassignments import read_reassignments
from breakglass.services.kafka.cluster.snapshot_memory import SnapshotMemory
from breakglass.services.kafka.cluster.topic_settings import read_topic_settings, settings_answer
from breakglass.services.kafka.replicas.log_dirs import read_log_dirs
from breakglass.services.kafka.replicas.replica_reader import ReplicaReader
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import (
    ClusterDescription,
    ClusterSnapshot,
    LogDir,
    PartitionState,
    Reassignment,
    TopicPartition,
    TopicSettings,
    Unknown,
)

if TYPE_CHECKING:
    from breakglass.services.kafka.replicas.contents_reader import ContentsReader
    from breakglass.services.kafka.replicas.reading_allowance import Allowance
    from breakglass.services.kafka.wire.messages.replica_log_info import ReplicaLogInfoMessages

STEP_SECONDS = 10.0
"""How long one request of a snapshot may take, where there is time for many."""


class ReadClient:
    """Reads through one `Sender`, whose allow-list decides what this session may ever send.

    With *listener* every broker is reached on its listener of that name, as it advertises it.
    """

    def __init__(self, sender: Sender, listener: str | None = None) -> None:
        self.sender = sender
        self._listener = listener

    def describe(self, deadline: Deadline) -> ClusterDescription:
        """Brokers and cluster id; learns the brokers' addresses.

        Raises:
            Unreachable: no bootstrap server answers.
        """
        description = describe_cluster(self.sender, deadline)
        self.sender.learn(description.brokers)
        if self._listener is not None:
            asked = [one.id for one in description.brokers if one.fenced is not True]
            self.sender.override(read_listener(self.sender, asked, self._listener, deadline))
        return description

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

        Where *only* some of these partitions matter, others may be left out.
        Settings are read for topics with offline partitions, unless the caller needs none. What
        the controller must answer (quorum, reassignments) is asked beside the rest and is Unknown
        without it.
        With the *memory* of earlier snapshots of the same topics, what is told as before is
        taken from there: the very same `partitions` if none of them changed.

        Raises:
            Unreachable: no broker serves its metadata.
            NotAuthorized: a named topic may not be described.
        """
        held = memory or SnapshotMemory()
        description = self.describe(deadline.sooner(STEP_SECONDS))
        with ThreadPoolExecutor(2, "controller") as controller:
            quorum = controller.submit(describe_quorum, self.sender, deadline)
            moving = controller.submit(read_reassignments, self.sender, deadline)
            partitions = read_partitions(self.sender, deadline, topics, only, held.pages)
            limit = deadline.sooner(STEP_SECONDS)
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
        """The partitions of *topics* as the brokers' metadata has them now; *only* as above."""
        return read_partitions(self.sender, deadline, topics, only)

    def partitions_and_moves(
        self, topics: Sequence[str], deadline: Deadline, only: Collection[TopicPartition] = ()
    ) -> tuple[PartitionState, ...]:
        """The same with the reassignments under way, which the controller is asked for beside."""
        with ThreadPoolExecutor(1, "controller") as controller:
            moving = controller.submit(read_reassignments, self.sender, deadline)
            partitions = self.partitions(topics, deadline, only)
            return _with_reassignments((partitions, moving.result()))

    def settings(self, topics: Sequence[str], deadline: Deadline) -> dict[str, TopicSettings]:
        """The election-relevant settings of *topics*."""
        return read_topic_settings(self.sender, deadline, topics) if topics else {}

    def _settings(
        self, partitions: tuple[PartitionState, ...], deadline: Deadline, held: SnapshotMemory
    ) -> dict[str, TopicSettings]:
        """Those of topics with offline partitions."""
        topics = sorted({one.partition.topic for one in partitions if one.offline})
        if not topics:
            return {}
        answer = held.settings.of(tuple(topics), lambda _: settings_answer())
        return read_topic_settings(self.sender, deadline, topics, answer)

    def replicas_on(
        self, broker: int, log_info: ReplicaLogInfoMessages | None = None
    ) -> ReplicaReader:
        """A reader of the replicas that *broker* holds; *log_info* where it has KIP-1275's."""
        return ReplicaReader(self.sender, broker, log_info)

    def contents_on(
        self, broker: int, allowance: Allowance, stop: Callable[[], bool]
    ) -> ContentsReader:
        """A reader of the contents of replicas that *broker* holds."""
        from breakglass.services.kafka.replicas.contents_reader import ContentsReader

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
        return tuple(replace(one, reassignment=moving) for one in partitions)
    if not moving:
        return partitions
    return tuple(
        replace(one, reassignment=moving[one.partition]) if one.partition in moving else one
        for one in partitions
    )
