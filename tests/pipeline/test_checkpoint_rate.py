"""A checkpoint is copied as fast as `--max-rate` allows, and no faster: by Spark and without."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.checkpoint.coordinator import Coordinator
from services.checkpoint.finishing import Finisher
from services.checkpoint.kafka.deciding import Decider
from services.checkpoint.kafka.topics import KafkaTopics, Wanted
from services.checkpoint.protocol.values import Status
from services.checkpoint.spark.partition_copy import SMALL
from services.checkpoint.spark.sources import KafkaSources
from services.checkpoint.store.backup_store import BackupStore
from services.checkpoint.store.documents import Level
from services.checkpoint.store.stored import StoredCheckpoint
from services.kafka.read_client import ReadClient
from services.lab.cluster import Cluster
from services.pipeline.running import BackupSettings, Meter, Run
from services.pipeline.session import Spark
from services.topic_backup.store.store import LocalStore
from tests.pipeline.producing import Values, make, produce

PARTITIONS = 2
VALUE = b"v" * 500
SECONDS = 6.0
"""That copying is to take, at the rate."""
SLACK_SECONDS = 3.0
"""For what is no copying: plans, looks at the cluster, commits."""


def filled(broker: Cluster, topic: str, records: int) -> None:
    """A topic with so many *records* in each partition."""

    def values() -> Iterator[Values]:
        return ({"value": VALUE} for _ in range(records))

    make(broker, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(broker, topic, values(), partition)


def taken(run: Run, topic: str, root: Path) -> tuple[StoredCheckpoint, float]:
    """A checkpoint, and the seconds it was copied in."""
    store = BackupStore(str(root))
    wanted = Wanted(Level.VECTOR, (topic,))
    id = Coordinator(store, KafkaTopics(run.client, None, wanted)).take()
    assert isinstance(id, int)
    finisher = Finisher(store, Decider(run.client), KafkaSources(run), side_by_side=1)
    began = time.monotonic()
    found = finisher.finish(id)
    return found, time.monotonic() - began


def copied_bytes(found: StoredCheckpoint) -> int:
    manifests = [one.counting.manifest for one in found.partitions if one.counting is not None]
    files = [file for one in manifests if one is not None for file in one.files]
    return sum(one.size for one in files if one.name.endswith("_records"))


@pytest.mark.parametrize("records", [SMALL // 2, 3 * SMALL], ids=["read here", "read by Spark"])
def test_copying_keeps_to_its_rate_and_reaches_it(
    broker: Cluster, client: ReadClient, spark: Spark, topic: str, tmp_path: Path, records: int
) -> None:
    filled(broker, topic, records)
    connection = {"bootstrap.servers": broker.bootstrap_servers}
    quick = BackupSettings(LocalStore(tmp_path))
    run = Run(client, spark, connection, quick, Meter(lambda _: None))
    first, _ = taken(run, topic, tmp_path)
    size = copied_bytes(first)
    assert size > PARTITIONS * records * len(VALUE)
    slow = replace(quick, bytes_per_second=size / SECONDS)
    second, seconds = taken(replace(run, settings=slow), topic, tmp_path)
    assert (second.status, copied_bytes(second)) == (Status.COMPLETED, size)
    assert SECONDS <= seconds < SECONDS + SLACK_SECONDS
