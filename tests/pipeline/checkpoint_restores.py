"""Checkpoints of plain topics in tests, taken and restored; somebody else may act in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.finishing import Finisher
from breakglass.services.checkpoint.kafka.control import Control
from breakglass.services.checkpoint.kafka.control_log import read_control
from breakglass.services.checkpoint.kafka.deciding import Decider
from breakglass.services.checkpoint.kafka.log_ends import read_logs
from breakglass.services.checkpoint.kafka.topics import KafkaTopics, WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.spark.partition_copy import KafkaSources
from breakglass.services.checkpoint.spark.restore import restore
from breakglass.services.checkpoint.spark.restoring import (
    CheckpointPlan,
    CheckpointRestoreOptions,
    make_plan,
)
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.errors import TimedOut
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter, Tell
from breakglass.services.pipeline.restore.restore import RestoreRun, TopicRestored
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import Power
from breakglass.services.topic_backup.store.store import open_store
from tests.pipeline.backups import access_to, unheard
from tests.pipeline.visited import Visited, nothing

SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Takes checkpoints of topics on one broker, and restores them there."""

    broker: Cluster
    client: ReadClient
    spark: Spark
    power: Power
    folder: Path
    control: str

    @property
    def store(self) -> BackupStore:
        return BackupStore(str(self.folder / "store"))

    @property
    def connection(self) -> dict[str, str]:
        return {"bootstrap.servers": self.broker.bootstrap_servers}

    def run(self, tell: Tell = unheard) -> BackupRun:
        place = BackupSettings(open_store(self.store.address))
        access = access_to(self.broker.bootstrap_servers)
        return BackupRun(self.client, self.spark, access, place, Meter(tell))

    def taken(self, *topics: str, groups: Mapping[str, GroupPolicy] | None = None) -> int:
        """The id of a completed one of *topics*."""
        id = self.started(WantedCheckpoint(Level.VECTOR, topics, groups or {}))
        assert self.finished(id).status is Status.COMPLETED
        return id

    def started(self, wanted: WantedCheckpoint) -> int:
        """The id of an acknowledged one."""
        id = Coordinator(self.store, KafkaTopics(self.client, None, wanted)).take()
        assert isinstance(id, int)
        return id

    def finished(self, id: int) -> StoredCheckpoint:
        """What became of one that was acknowledged; errors pass."""
        return Finisher(
            self.store, Decider(self.client), KafkaSources(self.run(), self.control)
        ).finish(id)

    def plan(
        self, id: int, renamed: Mapping[str, str] | None = None, *, resume: bool = False
    ) -> CheckpointPlan:
        options = CheckpointRestoreOptions(renamed or {}, resume)
        return make_plan(self.client, self.store, id, options, self.folder / "restores")

    def restore(
        self,
        plan: CheckpointPlan,
        *,
        tell: Tell = unheard,
        created: Callable[[], None] = nothing,
        configured: Callable[[], None] = nothing,
        verify: bool = True,
    ) -> list[TopicRestored]:
        """Carry out *plan*, while somebody else acts."""
        cluster_id = plan.plan.cluster_id
        with (
            Journal.open(cluster_id, self.folder) as journal,
            self.power.topics(cluster_id) as topics,
            self.power.markers(cluster_id) as markers,
        ):
            visited = Visited(topics, created, configured)
            work = RestoreRun(self.run(tell), visited, journal, plan.plan.cluster_id, verify=verify)
            return restore(work, markers, plan, self.control)

    def told(self) -> Control:
        """What participants are told."""
        found = read_control(self.client, self.control, Deadline.after(SECONDS))
        return found or Control()

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic as participants are told it; None where there is none."""
        found = self.client.partitions((topic,), Deadline.after(SECONDS))
        return found[0].topic_id.hex if found else None

    def end(self, topic: str) -> int:
        """How far the partitions of a topic go, together; 0 where there is none."""
        deadline = Deadline.after(SECONDS)
        if not self.client.partitions((topic,), deadline):
            return 0
        return sum(read_logs(self.client, (topic,), deadline).high_watermarks(deadline).values())

    def reaches(self, topic: str, offsets: int) -> bool:
        """Whether its partitions have that many offsets together, committed or not.

        Of a topic that was just created a broker may not know yet that it leads.
        """
        try:
            return self.end(topic) >= offsets
        except TimedOut:
            return False
