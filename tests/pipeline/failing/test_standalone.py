"""The same on a standalone cluster of Spark: a master and two workers of their own processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern
from breakglass.services.lab.produce import produce as produce_many
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.verification import verify_files
from tests.pipeline.failing.test_commands import finish, last_line
from tests.pipeline.producing import make
from tests.pipeline.spark_cluster import LOOPBACK, SECONDS, SparkCluster
from tests.pipeline.test_restore import without_offsets

pytestmark = [pytest.mark.slow, pytest.mark.timeout(4 * SECONDS)]


@pytest.fixture
def spark_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The master's address, once both workers are known to it."""
    monkeypatch.setenv("SPARK_LOCAL_IP", LOOPBACK)
    with SparkCluster(tmp_path) as cluster:
        yield cluster.master


def test_a_backup_and_a_restore_through_two_workers(
    broker: Cluster, spark_cluster: str, topic: str, tmp_path: Path
) -> None:
    make(broker, topic, partitions=2)
    for partition in (0, 1):
        produce_many(broker, topic, partition, 5_000, pattern=Pattern(value_bytes=500))
    backup, on = str(tmp_path / "backup"), ["--master", spark_cluster]
    code, out, err = finish(broker, "run", "--topics", topic, "--store", backup, "--json", *on)
    assert (code, last_line(out)["records"]) == (0, 10_000), err
    assert verify_files(LocalFolder(tmp_path / "backup" / topic)).whole
    target = f"{topic}-back"
    back = ["restore", "--store", backup, "--map", f"{topic}={target}", "--write", "--json"]
    consent = ["--consent", f"restore 10,000 records into {target}"]
    code, out, err = finish(broker, *back, *consent, *on)
    assert code == 0, err
    assert last_line(out)["topics"][0]["verified"] is True
    for partition in (0, 1):
        restored = without_offsets(broker, target, partition)
        assert restored == without_offsets(broker, topic, partition)
