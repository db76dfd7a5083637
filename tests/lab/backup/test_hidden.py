"""Backups and checkpoints of brokers that only tunnels lead to, behind TLS and OAUTHBEARER."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.guard.journal import Journal
from breakglass.services.lab.produce import produce
from breakglass.services.lab.topics import create_topic
from breakglass.services.pipeline.backup import back_up
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
from breakglass.services.pipeline.restore.options import RestoreOptions
from breakglass.services.pipeline.restore.plan import make_plan
from breakglass.services.pipeline.restore.restore import RestoreRun, restore
from breakglass.services.pipeline.session import Spark
from breakglass.services.pipeline.source import WantedTopics
from breakglass.services.session import Power
from breakglass.services.topic_backup.catalog import held_topics
from breakglass.services.topic_backup.store.store import LocalStore
from tests.kit.hidden import CLIENT_SECRET, HiddenCluster, hidden_cluster
from tests.lab.backup.backups import unheard
from tests.lab.checkpoint.taking import Taking


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiddenCluster]:
    with hidden_cluster(tmp_path_factory.mktemp("hidden")) as made:
        yield made


def filled(hidden: HiddenCluster, topic: str) -> None:
    """Create *topic* with a partition on each broker, and a record for each of 20 numbers."""
    create_topic(hidden.cluster, topic, [[1], [2]])
    for partition in (0, 1):
        produce(hidden.cluster, topic, partition, 20)


def secrets_in(folder: Path) -> list[Path]:
    """The files below *folder* that contain the client secret."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if CLIENT_SECRET.encode() in path.read_bytes()]


def test_a_topic_is_backed_up_and_restored(
    hidden: HiddenCluster, spark: Spark, topic: str, tmp_path: Path
) -> None:
    filled(hidden, topic)
    access, store = hidden.access, LocalStore(tmp_path / "backup")
    with access.reading() as client:
        run = BackupRun(client, spark, access, BackupSettings(store), Meter(unheard))
        report = back_up(run, WantedTopics((topic,)))
        assert (report.records, report.whole) == (40, True)
        options = RestoreOptions(renamed={topic: f"{topic}-back"})
        plan = make_plan(client, held_topics(store, [topic]), options, tmp_path / "state")
        with (
            Journal.open(plan.cluster_id, tmp_path / "state") as journal,
            Power(access).topics(plan.cluster_id) as topics,
        ):
            (done,) = restore(RestoreRun(run, topics, journal, plan.cluster_id), plan)
    assert (done.error, done.verified, done.records) == ("", True, 40)
    assert secrets_in(tmp_path) == []


def test_a_checkpoint_is_taken_and_restored(
    hidden: HiddenCluster, spark: Spark, topic: str, tmp_path: Path
) -> None:
    filled(hidden, topic)
    access = hidden.access
    with access.reading() as client:
        store = BackupStore(str(tmp_path / "store"))
        taking = Taking(access, client, store, spark, tmp_path / "state", f"control-{topic}")
        taking.restored(taking.taken(topic), {topic: f"{topic}-back"})
    assert secrets_in(tmp_path) == []
