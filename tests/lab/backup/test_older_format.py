"""A log from before Kafka 0.11 is backed up, verified and compared as any other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
from breakglass.services.pipeline.session import Spark
from breakglass.services.pipeline.verify import verify_content
from breakglass.services.record_batches import Compression
from breakglass.services.topic_backup.store.store import LocalStore
from breakglass.services.topic_backup.verification import verify_files
from tests.kit.clusters import access_to
from tests.lab.backup.backups import backing_up, unheard
from tests.lab.backup.independent import delivered, stored
from tests.lab.backup.producing import make, numbered, produce
from tests.unit.topic_backup.older_bytes import message_set, wrapped
from tests.unit.topic_backup.shapes import run

RECORDS = 50
"""In formats 0 and 1, which records in format 2 follow."""
OLDER = b"".join(
    (
        wrapped(run(0, 10), 0, Compression.LZ4),
        message_set(run(10, 15), 0),
        wrapped(run(15, 20), 0, Compression.SNAPPY),
        message_set(run(20, 30), 1),
        wrapped(run(30, 40), 1, Compression.GZIP, append_ms=1_600_000_000_000),
        wrapped(run(40, RECORDS), 1, Compression.LZ4),
    )
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A broker of this test's own, for its log is written over."""
    with Cluster.up(tmp_path / "lab", brokers=1, tethered=True) as made:
        yield made


def write_over(cluster: Cluster, topic: str) -> None:
    """Let the topic's only log begin with those messages."""
    node = cluster.node(1)
    node.stop()
    folder = node.partition_folder(topic, 0)
    assert folder is not None
    for path in folder.glob("0*.*"):
        path.unlink()
    (folder / f"{0:020}.log").write_bytes(OLDER)
    for log_dir in node.layout.log_dirs:
        for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
            (log_dir / name).unlink(missing_ok=True)
    node.start()
    cluster.wait_unfenced(1)
    cluster.wait_partition(topic, 0, lambda state: state.leader == 1, "b1 to lead")


def test_records_in_older_message_formats_are_backed_up_and_verified(
    cluster: Cluster, spark: Spark, topic: str, tmp_path: Path
) -> None:
    make(cluster, topic)
    write_over(cluster, topic)
    produce(cluster, topic, numbered(5))
    with backing_up(access_to(cluster), spark, tmp_path / "backup") as back_up:
        report = back_up.topic(topic)
        assert report.partitions[0].records == RECORDS + 5
        produce(cluster, topic, numbered(5))
        assert back_up.topic(topic).partitions[0].records == 5
        settings = BackupSettings(LocalStore(back_up.root))
        verification = BackupRun(back_up.client, spark, back_up.access, settings, Meter(unheard))
        folder, manifest = back_up.folder(topic), back_up.manifest(topic)
        found = verify_content(verification, folder, manifest, topic)
        assert (found.identical, found.equal) == (True, RECORDS + 10)
    assert stored(back_up.root / topic, 0) == delivered(cluster, topic, 0)
    assert verify_files(back_up.folder(topic)).whole
