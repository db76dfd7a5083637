"""A log from before Kafka 0.11, whose message format only Kafka's own clients still read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from services.connection.sources import ConnectionOptions, connection_settings
from services.lab.cluster import Cluster
from services.pipeline.session import Spark
from services.session import ReadAccess
from services.topic_backup.verification import verify_files
from tests.pipeline.backups import BackUp
from tests.pipeline.independent import delivered, stored
from tests.pipeline.producing import make, numbered, produce

pytestmark = pytest.mark.slow

RECORDS = 30
"""In format 1, which records in format 2 follow."""
NOW_MS = 1_700_000_000_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A broker of this test's own, for its log is written over."""
    with Cluster.up(tmp_path / "lab", brokers=1, tethered=True) as made:
        yield made


def format_1() -> bytes:
    """Messages as Kafka 0.10 wrote them."""
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1_000_000)
    for offset in range(RECORDS):
        key, value = b"k%d" % offset, b"before 0.11, number %d" % offset
        builder.append(offset, timestamp=NOW_MS + offset, key=key, value=value)
    return bytes(builder.build())


def write_over(cluster: Cluster, topic: str) -> None:
    """Let the topic's only log begin with those messages."""
    node = cluster.node(1)
    node.stop()
    folder = node.partition_folder(topic, 0)
    assert folder is not None
    for path in folder.glob("0*.*"):
        path.unlink()
    (folder / f"{0:020}.log").write_bytes(format_1())
    for log_dir in node.layout.log_dirs:
        for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
            (log_dir / name).unlink(missing_ok=True)
    node.start()
    cluster.wait_unfenced(1)
    cluster.wait_partition(topic, 0, lambda one: one.leader == 1, "b1 to lead")


def test_records_in_an_older_message_format_are_backed_up_through_kafkas_own_clients(
    cluster: Cluster, spark: Spark, topic: str, tmp_path: Path
) -> None:
    make(cluster, topic)
    write_over(cluster, topic)
    produce(cluster, topic, numbered(5))
    options = ConnectionOptions(bootstrap_server=cluster.bootstrap_servers)
    with ReadAccess(connection_settings(options, {})).reading() as client:
        back_up = BackUp(client, spark, cluster.bootstrap_servers, tmp_path / "backup")
        report = back_up.topic(topic)
        assert report.partitions[0].records == RECORDS + 5
        produce(cluster, topic, numbered(5))
        assert back_up.topic(topic).partitions[0].records == 5
    assert stored(back_up.root / topic, 0) == delivered(cluster, topic, 0)
    assert verify_files(back_up.folder(topic)).whole
