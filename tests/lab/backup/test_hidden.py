"""Backups and checkpoints of brokers that only tunnels lead to, behind TLS and OAUTHBEARER."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.lab.produce import produce
from breakglass.services.lab.topics import create_topic
from breakglass.services.pipeline.session import Spark
from tests.kit.hidden import CLIENT_SECRET, HiddenCluster, hidden_cluster
from tests.lab.backup.backups import backing_up
from tests.lab.backup.restores import Restore
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
    with backing_up(hidden.access, spark, tmp_path / "backup") as back_up:
        assert sum(partition.records for partition in back_up.topic(topic).partitions) == 40
        done = Restore(back_up, tmp_path / "state").topic(topic, f"{topic}-back")
    assert done.records == 40
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
