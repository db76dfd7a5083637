"""H10 on real brokers: logs that an unclean election rewrites under a checkpoint are noticed."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import pytest

from breakglass.services.checkpoint.coordinator import CopyPartition
from breakglass.services.checkpoint.kafka.logs import read_logs
from breakglass.services.checkpoint.kafka.topics import read_histories
from breakglass.services.checkpoint.promises import WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.spark.partition_copy import KafkaSources
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import CutDocument, Level, TakeDocument
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.errors import ClusterError, Refused, StorageError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern, produce
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import EpochHistory, TopicPartition
from breakglass.services.pipeline.backup_context import CopyProgress
from breakglass.services.pipeline.session import Spark
from tests.kit.clusters import access_to
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.backup.test_unclean_election import fill, lose_to_b2
from tests.lab.checkpoint.branch import soon
from tests.lab.checkpoint.taking import Taking, decided, read, take_of
from tests.lab.conftest import FreshCluster

EACH = 10
"""Records that both brokers have of each topic, and records that b1 alone has."""
STAGES = ("acknowledged", "decided", "copied")
"""How far the checkpoint of each topic is when its log is rewritten."""


def rewrite(cluster: Cluster) -> None:
    """Have b2 lead, which lacks the last records, and others written in their place."""
    lose_to_b2(cluster, *STAGES)
    for topic in STAGES:
        produce(cluster, topic, 0, EACH, pattern=Pattern(label="other", start=EACH))


def source(taking: Taking, topic: str) -> tuple[int, EpochHistory]:
    """Where the log ends, and which epochs wrote it."""
    partition, logs = TopicPartition(topic, 0), read_logs(taking.client, (topic,), soon())
    history = read_histories(logs, {partition: 0}, soon())[partition]
    assert isinstance(history, EpochHistory)
    return logs.high_watermarks(soon())[partition], history


def started(taking: Taking, topic: str) -> int:
    return taking.started(WantedCheckpoint((topic,), level=Level.VECTOR))


@dataclass
class Unaware:
    """Sources that are not told the leader epochs of the cut."""

    sources: KafkaSources

    def open(self, take: TakeDocument, cut: CutDocument) -> Mapping[int, CopyPartition]:
        return self.sources.open(take, replace(cut, epochs={}))


def finished_while(taking: Taking, id: int, do: Callable[[], None]) -> StoredCheckpoint:
    """It, finished, with something done when its partition is written and does not count yet.

    That is done in this thread: brokers end with the thread that has started them.
    """
    written, over = Event(), Event()

    def hold(_: CopyProgress) -> None:
        written.set()
        assert over.wait(DEADLINE_SECONDS)

    finisher = replace(taking.finisher(), sources=KafkaSources(taking.run(hold), taking.control))
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(finisher.finish, id)
        try:
            assert written.wait(DEADLINE_SECONDS), "nothing was written"
            do()
        finally:
            over.set()
        return found.result()


def test_h10_a_log_that_is_rewritten_to_the_same_length_fails_its_checkpoint(
    fresh_cluster: FreshCluster, spark: Spark, tmp_path: Path
) -> None:
    cluster = fresh_cluster(brokers=2)
    fill(cluster, *STAGES)
    access = access_to(cluster)
    with access.reading() as client:
        store = BackupStore(str(tmp_path / "store"))
        taking = Taking(access, client, store, spark, tmp_path / "state")
        before = {topic: source(taking, topic) for topic in STAGES}
        ids = {topic: started(taking, topic) for topic in STAGES}
        for topic in ("decided", "copied"):
            cut = decided(taking, taking.finisher(), ids[topic])
            assert cut.positions == {1: 2 * EACH}
        finished_while(taking, ids["copied"], lambda: rewrite(cluster))
        taking.finisher().finish(ids["decided"])
        with pytest.raises(ClusterError, match="leader epoch diverged"):
            taking.finisher().finish(ids["acknowledged"])
        for topic, (end, was) in before.items():
            found, (same, now) = read(store, ids[topic]), source(taking, topic)
            assert end == same == 2 * EACH
            reason = found.failed.reason if found.failed else found.partitions[0].failure
            assert found.status is Status.FAILED
            told = (f"{topic}-0", f"{end - 1}", f"{was.last_written}", f"{now.last_written}")
            assert all(word in (reason or "") for word in (*told, f"{EACH}")), reason
            with pytest.raises(Refused):
                taking.plan(found.id, {topic: "x"})


def test_h10_a_copy_of_another_log_than_the_cut_is_not_restored(
    whole_broker: Cluster, taking: Taking, topic: str
) -> None:
    create_topic(whole_broker, topic, [[1]])
    produce(whole_broker, topic, 0, EACH)
    id, finisher = started(taking, topic), taking.finisher()
    found = read(taking.store, id)
    assert found.started is not None
    assert found.started.epochs == {1: source(taking, topic)[1].last_written}
    cut = finisher.decider.decide(take_of(found), found.started)
    assert cut.epochs == found.started.epochs
    taking.store.decide(id, replace(cut, epochs={1: 99}))
    unaware = replace(finisher, sources=Unaware(KafkaSources(taking.run(), taking.control)))
    assert unaware.finish(id).status is Status.COMPLETED
    with pytest.raises(StorageError, match="epoch 99"):
        taking.plan(id, {topic: "x"})
    assert taking.plan(taking.taken(topic), {topic: "x"}).plan.records == EACH
