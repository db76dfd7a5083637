"""Checkpoints taken and restored in this process, by the same parts as the commands."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakglass.services.checkpoint.coordinator import Coordinator, Finisher
from breakglass.services.checkpoint.kafka.control import CONTROL_TOPIC, Control
from breakglass.services.checkpoint.kafka.deciding import Decider
from breakglass.services.checkpoint.kafka.logs import read_control, read_logs
from breakglass.services.checkpoint.kafka.topics import KafkaTopics
from breakglass.services.checkpoint.promises import CopySettings, WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.spark.partition_copy import KafkaSources
from breakglass.services.checkpoint.spark.restore import CheckpointPlan, make_plan, restore
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    GroupPolicy,
    Level,
    TakeDocument,
)
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.checkpoint.wording import RestoreAsked
from breakglass.services.errors import TimedOut
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter, Tell
from breakglass.services.pipeline.restore.options import RestoreSettings
from breakglass.services.pipeline.restore.restore import RestoreRun, TopicRestored
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import Power, ReadAccess
from breakglass.services.topic_backup.store.store import open_store
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.backup.backups import unheard
from tests.lab.backup.visited import Visited, nothing
from tests.lab.checkpoint.branch import Branch, soon


def read(store: BackupStore, id: int = 1) -> StoredCheckpoint:
    """Checkpoint *id*, which must be there."""
    found = store.read(id)
    assert found is not None
    return found


def take_of(found: StoredCheckpoint) -> TakeDocument:
    """What was asked for."""
    assert found.take is not None
    return found.take


def cut_of(found: StoredCheckpoint) -> CutDocument:
    """What was decided to be in it."""
    assert found.cut is not None
    return found.cut


def why_failed(store: BackupStore, id: int = 1) -> str:
    """The reason of checkpoint *id*, which must have failed."""
    found = read(store, id)
    assert found.status is Status.FAILED
    assert found.failed is not None
    return found.failed.reason


def policies(bank: Branch) -> dict[str, GroupPolicy]:
    return {bank.group: GroupPolicy(bank.guarantee.value)}


@dataclass(frozen=True, slots=True)
class Taking:
    """Takes checkpoints of any topics on one cluster into one store, and restores them there."""

    access: ReadAccess
    client: ReadClient
    store: BackupStore
    spark: Spark
    folder: Path
    """For what restores note."""
    control: str = CONTROL_TOPIC
    drain_seconds: float = DEADLINE_SECONDS

    @property
    def power(self) -> Power:
        return Power(self.access)

    @property
    def cluster_id(self) -> str:
        return self.client.describe(soon()).cluster_id

    def run(self, tell: Tell = unheard, **settings: Any) -> BackupRun:
        place = BackupSettings(open_store(self.store.address), **settings)
        return BackupRun(self.client, self.spark, self.access, place, Meter(tell))

    @contextmanager
    def parts(
        self,
        bank: Branch,
        level: Level = Level.COORDINATED,
        groups: Mapping[str, GroupPolicy] | None = None,
        node: int = 0,
        external: tuple[str, ...] = (),
    ) -> Iterator[tuple[Coordinator, Finisher]]:
        """What takes and what finishes checkpoints of *bank*, as the worker of node *node*."""
        named = policies(bank) if groups is None else groups
        wanted = WantedCheckpoint(
            (bank.topic,), named, level, external, how=CopySettings(control_topic=bank.control)
        )
        with self.parts_of(wanted, node) as parts:
            yield parts

    @contextmanager
    def parts_of(
        self, wanted: WantedCheckpoint, node: int = 0
    ) -> Iterator[tuple[Coordinator, Finisher]]:
        """The same for any *wanted* checkpoint."""
        with self.power.markers(self.cluster_id) as markers:
            topics = KafkaTopics(self.client, markers, wanted)
            finisher = self.finisher(wanted.how.control_topic, node)
            yield Coordinator(self.store, topics, node=node), finisher

    def wanted(
        self,
        level: Level,
        topics: tuple[str, ...],
        groups: Mapping[str, GroupPolicy] | None = None,
    ) -> WantedCheckpoint:
        """A checkpoint of *topics*, with the ids in this one's control topic."""
        how = CopySettings(control_topic=self.control)
        return WantedCheckpoint(topics, groups or {}, level, how=how)

    def finisher(self, control: str = "", node: int = 0) -> Finisher:
        control = control or self.control
        decider = Decider(self.client, self.drain_seconds, control_topic=control)
        sources = KafkaSources(self.run(), control)
        return Finisher(self.store, decider, sources, node, wait=lambda _: None)

    def take(self, bank: Branch, level: Level = Level.COORDINATED) -> StoredCheckpoint:
        """Take one of *bank* to its end."""
        with self.parts(bank, level) as (coordinator, finisher):
            id = coordinator.take()
            assert isinstance(id, int)
            return finisher.finish(id)

    def taken(self, *topics: str, groups: Mapping[str, GroupPolicy] | None = None) -> int:
        """The id of a completed one of *topics*, of level vector."""
        id = self.started(WantedCheckpoint(topics, groups or {}, Level.VECTOR))
        assert self.finisher().finish(id).status is Status.COMPLETED
        return id

    def started(self, wanted: WantedCheckpoint) -> int:
        """The id of an acknowledged one that needs no markers."""
        id = Coordinator(self.store, KafkaTopics(self.client, None, wanted)).take()
        assert isinstance(id, int)
        return id

    def plan(
        self, id: int, renamed: Mapping[str, str] | None = None, *, resume: bool = False
    ) -> CheckpointPlan:
        asked = RestoreAsked(renamed or {}, resume=resume)
        return make_plan(
            self.client, self.store, read(self.store, id), asked, self.folder / "restores"
        )

    def carry_out(
        self,
        plan: CheckpointPlan,
        *,
        control: str = "",
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
            work = RestoreRun(
                self.run(tell), visited, journal, cluster_id, RestoreSettings(verify=verify)
            )
            return restore(work, markers, plan, control or self.control)

    def restored(self, id: int, renamed: Mapping[str, str], control: str = "") -> None:
        """Restore checkpoint *id*; every record must be the same."""
        done = self.carry_out(self.plan(id, renamed), control=control)
        assert [(topic.error, topic.verified) for topic in done] == [("", True)] * len(done)

    def restore(self, bank: Branch, id: int, topic: str) -> Branch:
        """Restore a checkpoint of *bank* into a new topic; the bank there."""
        self.restored(id, {bank.topic: topic}, bank.control)
        return bank.restored(topic)

    def told(self) -> Control:
        """What participants are told."""
        return read_control(self.client, self.control, soon()) or Control()

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic as participants are told it; None where there is none."""
        found = self.client.partitions((topic,), soon())
        return found[0].topic_id.hex if found else None

    def end(self, topic: str) -> int:
        """How far the partitions of a topic go, together; 0 where there is none."""
        if not self.client.partitions((topic,), soon()):
            return 0
        return sum(read_logs(self.client, (topic,), soon()).high_watermarks(soon()).values())

    def reaches(self, topic: str, offsets: int) -> bool:
        """Whether its partitions have that many offsets together, committed or not.

        Of a topic that was just created a broker may not know yet that it leads.
        """
        try:
            return self.end(topic) >= offsets
        except TimedOut:
            return False


def decided(taking: Taking, finisher: Finisher, id: int = 1) -> CutDocument:
    """Decide what is in a checkpoint that was acknowledged, as a worker that dies behind that."""
    found = read(taking.store, id)
    assert found.started is not None
    return taking.store.decide(id, finisher.decider.decide(take_of(found), found.started))
