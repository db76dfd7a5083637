"""Partitions of a checkpoint copied from a broker: at a rate, and by two nodes alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.checkpoint.coordinator import Coordinator
from breakglass.services.checkpoint.copying import take_copy
from breakglass.services.checkpoint.finishing import Finisher
from breakglass.services.checkpoint.kafka.deciding import Decider
from breakglass.services.checkpoint.kafka.topics import KafkaTopics, WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.spark.partition_copy import SMALL, KafkaSources
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
from breakglass.services.pipeline.session import Spark
from breakglass.services.topic_backup.store.store import LocalStore
from tests.pipeline.backups import access_to, unheard
from tests.pipeline.producing import Values, make, produce

PARTITIONS = 2
BOTH_WAYS = [
    pytest.param(SMALL // 2, id="read here"),
    pytest.param(3 * SMALL, id="read by Spark", marks=pytest.mark.slow),
]
SEGMENT_BYTES = 1_000_000
VALUE = b"v" * 500
SECONDS = 6.0
"""That copying is to take, at the rate."""
SLACK_SECONDS = 2.0
"""Beside what looks at the cluster, plans and commits take without a rate."""


def filled(broker: Cluster, topic: str, records: int) -> None:
    """A topic with so many *records* in each partition."""

    def values() -> Iterator[Values]:
        return ({"value": VALUE} for _ in range(records))

    make(broker, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(broker, topic, values(), partition)


@pytest.fixture
def run(client: ReadClient, spark: Spark, broker: Cluster, tmp_path: Path) -> BackupRun:
    """Copies as fast as it goes."""
    settings, access = BackupSettings(LocalStore(tmp_path)), access_to(broker.bootstrap_servers)
    return BackupRun(client, spark, access, settings, Meter(unheard))


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return BackupStore(str(tmp_path / "store"))


def begun(store: BackupStore, run: BackupRun, topic: str) -> int:
    """A checkpoint of *topic*, acknowledged."""
    wanted = WantedCheckpoint(Level.VECTOR, (topic,))
    id = Coordinator(store, KafkaTopics(run.client, None, wanted)).take()
    assert isinstance(id, int)
    return id


def finished(store: BackupStore, run: BackupRun, id: int, node: int = 0) -> StoredCheckpoint:
    """It, copied one partition at a time, as with a rate."""
    finisher = Finisher(store, Decider(run.client), KafkaSources(run), node, side_by_side=1)
    return finisher.finish(id)


def timed(store: BackupStore, run: BackupRun, topic: str) -> tuple[StoredCheckpoint, float]:
    """A checkpoint of *topic*, and the seconds it was copied in."""
    id = begun(store, run, topic)
    began = time.monotonic()
    return finished(store, run, id), time.monotonic() - began


def copied_bytes(found: StoredCheckpoint) -> int:
    manifests = [
        partition.counting.manifest
        for partition in found.partitions
        if partition.counting is not None
    ]
    files = [file for manifest in manifests if manifest is not None for file in manifest.files]
    return sum(file.size for file in files if file.name.endswith("_records"))


@pytest.mark.parametrize("records", BOTH_WAYS)
def test_copying_keeps_to_its_rate_and_reaches_it(
    broker: Cluster, store: BackupStore, run: BackupRun, topic: str, records: int
) -> None:
    filled(broker, topic, records)
    size = copied_bytes(finished(store, run, begun(store, run, topic)))
    assert size > PARTITIONS * records * len(VALUE)
    _, unbounded = timed(store, run, topic)
    slow = replace(run, settings=replace(run.settings, bytes_per_second=size / SECONDS))
    found, bounded = timed(store, slow, topic)
    assert (found.status, copied_bytes(found)) == (Status.COMPLETED, size)
    assert SECONDS <= bounded < SECONDS + unbounded + SLACK_SECONDS


@pytest.mark.parametrize("records", BOTH_WAYS)
def test_h13_s3_nodes_that_cut_their_segments_elsewhere_hold_the_same_records(
    broker: Cluster, store: BackupStore, run: BackupRun, topic: str, records: int
) -> None:
    filled(broker, topic, records)
    id = begun(store, run, topic)
    # Node 1 has begun as well, so that its copy is asked for though that of node 0 is whole.
    for number in range(1, PARTITIONS + 1):
        store.copies.begin(CopyId(id, number, 1), None)
    finished(store, run, id)
    small = replace(run, settings=replace(run.settings, max_segment_bytes=SEGMENT_BYTES))
    found = store.read(id)
    assert found is not None
    assert found.take is not None
    assert found.cut is not None
    for number, source in KafkaSources(small).open(found.take, found.cut).items():
        copy = CopyId(id, number, 1)
        assert take_copy(store.copies, copy, None, source, time.sleep) is Status.COMPLETED
    found = store.read(id)
    assert found is not None
    assert found.status is Status.COMPLETED
    for part in found.partitions:
        one, other = (each.manifest for each in part.copies)
        assert one is not None
        assert other is not None
        assert one.records_digest == other.records_digest
        assert len(one.files) < len(other.files)
