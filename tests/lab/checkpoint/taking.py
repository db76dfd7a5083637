"""Checkpoints taken and restored in this process, by the same parts as the commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.finishing import Finisher
from breakglass.services.checkpoint.kafka.deciding import Decider
from breakglass.services.checkpoint.kafka.topics import KafkaTopics, WantedCheckpoint
from breakglass.services.checkpoint.spark.partition_copy import KafkaSources
from breakglass.services.checkpoint.spark.restore import restore
from breakglass.services.checkpoint.spark.restoring import CheckpointRestoreOptions, make_plan
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import CutDocument, GroupPolicy, Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.guard.journal import Journal
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
from breakglass.services.pipeline.restore.restore import RestoreRun
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import Power
from breakglass.services.topic_backup.store.store import open_store
from tests.lab.checkpoint.branch import SECONDS, Branch
from tests.pipeline.backups import access_to, unheard


def decided(taking: Taking, finisher: Finisher, id: int = 1) -> CutDocument:
    """Decide what is in a checkpoint that was acknowledged, as a worker that dies behind that."""
    found = taking.store.read(id)
    assert found is not None
    assert found.take is not None
    assert found.started is not None
    return taking.store.decide(id, finisher.decider.decide(found.take, found.started))


class Connected(Protocol):
    """What knows how its clients reach the cluster."""

    @property
    def connection(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Taking:
    """Takes checkpoints of banks on one cluster."""

    client: ReadClient
    power: Power
    store: BackupStore
    spark: Spark
    drain_seconds: float = SECONDS

    @property
    def cluster_id(self) -> str:
        return self.client.describe(Deadline.after(SECONDS)).cluster_id

    def run(self, bank: Connected) -> BackupRun:
        settings = BackupSettings(open_store(self.store.address))
        access = access_to(bank.connection["bootstrap.servers"])
        return BackupRun(self.client, self.spark, access, settings, Meter(unheard))

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
        policies = {bank.group: GroupPolicy(bank.guarantee.value)} if groups is None else groups
        wanted = WantedCheckpoint(level, (bank.topic,), policies, bank.control, external)
        with self.parts_of(wanted, bank, node) as parts:
            yield parts

    @contextmanager
    def parts_of(
        self, wanted: WantedCheckpoint, of: Connected, node: int = 0
    ) -> Iterator[tuple[Coordinator, Finisher]]:
        """The same for any *wanted* checkpoint."""
        control = wanted.control_topic
        with self.power.markers(self.cluster_id) as markers:
            topics = KafkaTopics(self.client, markers, wanted)
            sources = KafkaSources(self.run(of), control)
            decider = Decider(self.client, self.drain_seconds, control_topic=control)
            yield (
                Coordinator(self.store, topics, node=node),
                Finisher(self.store, decider, sources, node, wait=lambda _: None),
            )

    def take(self, bank: Branch, level: Level = Level.COORDINATED) -> StoredCheckpoint:
        """Take one to its end."""
        with self.parts(bank, level) as (coordinator, finisher):
            id = coordinator.take()
            assert isinstance(id, int)
            return finisher.finish(id)

    def restore(self, bank: Branch, id: int, topic: str, state: Path) -> Branch:
        """Restore a checkpoint of *bank* into a new topic; the bank there."""
        options = CheckpointRestoreOptions({bank.topic: topic})
        plan = make_plan(self.client, self.store, id, options, state)
        with (
            Journal.open(self.cluster_id, state) as journal,
            self.power.topics(self.cluster_id) as topics,
            self.power.markers(self.cluster_id) as markers,
        ):
            work = RestoreRun(self.run(bank), topics, journal, plan.plan.cluster_id)
            done = restore(work, markers, plan, bank.control)
        assert [(restored.error, restored.verified) for restored in done] == [("", True)]
        return bank.restored(topic)
