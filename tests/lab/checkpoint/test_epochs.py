"""H10 on real brokers: logs that an unclean election rewrites under a checkpoint are noticed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import pytest

from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.copying import PartitionCopier
from breakglass.services.checkpoint.finishing import Finisher, Sources
from breakglass.services.checkpoint.kafka.deciding import Decider
from breakglass.services.checkpoint.kafka.log_ends import read_logs
from breakglass.services.checkpoint.kafka.topics import (
    KafkaTopics,
    WantedCheckpoint,
    read_histories,
)
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.spark.partition_copy import KafkaSources
from breakglass.services.checkpoint.spark.restoring import CheckpointRestoreOptions, make_plan
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import CutDocument, Level, TakeDocument
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.errors import ClusterError, Refused, StorageError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern, produce
from breakglass.services.lab.topics import create_topic, elect_unclean
from breakglass.services.model import EpochHistory, TopicPartition
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
from breakglass.services.pipeline.report import CopyProgress
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import ReadAccess
from breakglass.services.topic_backup.store.store import LocalStore
from tests.lab.conftest import FreshCluster
from tests.pipeline.backups import access_to, unheard

EACH = 10
"""Records that both brokers have of each topic, and records that b1 alone has."""
STAGES = ("acknowledged", "decided", "copied")
"""How far the checkpoint of each topic is when its log is rewritten."""
SECONDS = 60.0


def fill(cluster: Cluster) -> None:
    for topic in STAGES:
        create_topic(cluster, topic, [[1, 2]], {"min.insync.replicas": "1"})
        produce(cluster, topic, 0, EACH)
    cluster.node(2).kill()
    for topic in STAGES:
        cluster.wait_partition(topic, 0, lambda state: state.isr == (1,), "an ISR of b1 alone")
        produce(cluster, topic, 0, EACH, pattern=Pattern(label="lost", start=EACH))


def rewrite(cluster: Cluster) -> None:
    """Have b2 lead, which lacks the last records, and others written in their place."""
    cluster.node(1).kill()
    cluster.node(2).start()
    cluster.wait_unfenced(2)
    for topic in STAGES:
        cluster.wait_partition(topic, 0, lambda state: state.offline, "no leader", via=2)
    elect_unclean(cluster, *(TopicPartition(topic, 0) for topic in STAGES))
    for topic in STAGES:
        cluster.wait_partition(topic, 0, lambda state: state.leader == 2, "b2 leading", via=2)
        produce(cluster, topic, 0, EACH, pattern=Pattern(label="other", start=EACH))


def source(client: ReadClient, topic: str) -> tuple[int, EpochHistory]:
    """Where the log ends, and which epochs wrote it."""
    partition, deadline = TopicPartition(topic, 0), Deadline.after(SECONDS)
    logs = read_logs(client, (topic,), deadline)
    history = read_histories(logs, {partition: 0}, deadline)[partition]
    assert isinstance(history, EpochHistory)
    return logs.high_watermarks(deadline)[partition], history


@dataclass
class Worker:
    """Takes and finishes checkpoints of one topic each, in one store."""

    client: ReadClient
    store: BackupStore
    run: BackupRun

    def take(self, topic: str) -> int:
        topics = KafkaTopics(self.client, None, WantedCheckpoint(Level.VECTOR, (topic,)))
        id = Coordinator(self.store, topics).take()
        assert isinstance(id, int)
        return id

    def decide(self, id: int) -> CutDocument:
        found = self.found(id)
        assert found.take is not None
        assert found.started is not None
        return self.store.decide(id, Decider(self.client).decide(found.take, found.started))

    def finish(
        self, id: int, tell: Callable[[CopyProgress], None] = lambda _: None
    ) -> StoredCheckpoint:
        """*tell* is called when its partition is written, and before it counts."""
        run = replace(self.run, meter=Meter(tell))
        return self._finish(id, KafkaSources(run))

    def finish_unawares(self, id: int) -> StoredCheckpoint:
        """Copied by something that does not know which leader epochs wrote the log."""
        return self._finish(id, Unaware(KafkaSources(self.run)))

    def _finish(self, id: int, sources: Sources) -> StoredCheckpoint:
        return Finisher(self.store, Decider(self.client), sources).finish(id)

    def found(self, id: int) -> StoredCheckpoint:
        found = self.store.read(id)
        assert found is not None
        return found


@dataclass
class Unaware:
    """Sources that are not told the leader epochs of the cut."""

    sources: KafkaSources

    def open(self, take: TakeDocument, cut: CutDocument) -> Mapping[int, PartitionCopier]:
        return self.sources.open(take, replace(cut, epochs={}))


def worker(client: ReadClient, spark: Spark, cluster: Cluster, folder: Path) -> Worker:
    settings, access = (
        BackupSettings(LocalStore(folder / "unused")),
        access_to(cluster.bootstrap_servers),
    )
    run = BackupRun(client, spark, access, settings, Meter(unheard))
    return Worker(client, BackupStore(str(folder / "store")), run)


def finished_while(work: Worker, id: int, do: Callable[[], None]) -> StoredCheckpoint:
    """It, finished, with something done when its partition is written and does not count yet.

    That is done in this thread: brokers end with the thread that has started them.
    """
    written, over = Event(), Event()

    def hold(_: CopyProgress) -> None:
        written.set()
        assert over.wait(SECONDS)

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(work.finish, id, hold)
        try:
            assert written.wait(SECONDS), "nothing was written"
            do()
        finally:
            over.set()
        return found.result()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_h10_a_log_that_is_rewritten_to_the_same_length_fails_its_checkpoint(
    fresh_cluster: FreshCluster, tmp_path: Path
) -> None:
    cluster = fresh_cluster(brokers=2)
    fill(cluster)
    options = ConnectionOptions(bootstrap_server=cluster.bootstrap_servers)
    with ReadAccess(connection_settings(options, {})).reading() as client, Spark() as spark:
        work = worker(client, spark, cluster, tmp_path)
        before = {topic: source(client, topic) for topic in STAGES}
        ids = {topic: work.take(topic) for topic in STAGES}
        for topic in ("decided", "copied"):
            assert work.decide(ids[topic]).positions == {1: 2 * EACH}
        done = {"copied": finished_while(work, ids["copied"], lambda: rewrite(cluster))}
        done["decided"] = work.finish(ids["decided"])
        with pytest.raises(ClusterError, match="leader epoch diverged"):
            work.finish(ids["acknowledged"])
        done["acknowledged"] = work.found(ids["acknowledged"])
        after = {topic: source(client, topic) for topic in STAGES}
        for topic, found in done.items():
            (end, was), (same, now) = before[topic], after[topic]
            assert end == same == 2 * EACH
            reason = found.failed.reason if found.failed else found.partitions[0].failure
            assert reason is not None
            assert found.status is Status.FAILED
            assert f"offset {end - 1} of {topic}-0 was of epoch {was.last_written}" in reason
            assert f"is of epoch {now.last_written} now" in reason
            assert f"cut the log at {EACH}" in reason
            with pytest.raises(Refused, match="only a completed one can be restored"):
                make_plan(
                    client,
                    work.store,
                    found.id,
                    CheckpointRestoreOptions({topic: "x"}),
                    tmp_path / "state",
                )


def test_h10_a_copy_of_another_log_than_the_cut_is_not_restored(
    client: ReadClient, broker: Cluster, tmp_path: Path
) -> None:
    topic = "other-log"
    create_topic(broker, topic, [[1]])
    produce(broker, topic, 0, EACH)
    with Spark() as spark:
        work = worker(client, spark, broker, tmp_path)
        id = work.take(topic)
        found = work.found(id)
        assert found.take is not None
        assert found.started is not None
        _, history = source(client, topic)
        assert found.started.epochs == {1: history.last_written}
        cut = Decider(client).decide(found.take, found.started)
        assert cut.epochs == found.started.epochs
        work.store.decide(id, replace(cut, epochs={1: 99}))
        assert work.finish_unawares(id).status is Status.COMPLETED
        with pytest.raises(StorageError, match="of epoch 99 when the checkpoint was cut"):
            make_plan(
                client, work.store, id, CheckpointRestoreOptions({topic: "x"}), tmp_path / "state"
            )
        again = work.take(topic)
        assert work.finish(again).status is Status.COMPLETED
        plan = make_plan(
            client, work.store, again, CheckpointRestoreOptions({topic: "x"}), tmp_path / "state"
        )
        assert plan.plan.records == EACH
