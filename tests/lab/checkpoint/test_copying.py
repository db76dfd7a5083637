"""Partitions of a checkpoint copied from a broker: at a rate, and by two nodes alike."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from breakglass.services.checkpoint.copying import take_copy
from breakglass.services.checkpoint.kafka.topics import WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.spark.partition_copy import SMALL, KafkaSources
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.checkpoint.store.stored import StoredCheckpoint
from breakglass.services.lab.cluster import Cluster
from tests.lab.backup.producing import make, produce
from tests.lab.checkpoint.taking import Taking, cut_of, read, take_of

PARTITIONS = 2
SEGMENT_BYTES = 1_000_000
VALUE = b"v" * 500
SECONDS = 3.0
"""That copying is to take at least, at the rate."""


@pytest.fixture(
    params=[
        pytest.param(SMALL // 2, id="read here"),
        pytest.param(3 * SMALL, id="read by Spark"),
    ]
)
def filled(request: pytest.FixtureRequest, whole_broker: Cluster, topic: str) -> str:
    """A topic with so many records in each partition."""
    make(whole_broker, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        values = ({"value": VALUE} for _ in range(request.param))
        produce(whole_broker, topic, values, partition)
    return topic


def copied_bytes(found: StoredCheckpoint) -> int:
    copies = [part.counting for part in found.partitions if part.counting is not None]
    files = [file for copy in copies if copy.manifest is not None for file in copy.manifest.files]
    return sum(file.size for file in files if file.name.endswith("_records"))


def test_copying_keeps_to_its_rate(taking: Taking, filled: str) -> None:
    size = copied_bytes(read(taking.store, taking.taken(filled)))
    assert size > PARTITIONS * len(VALUE)
    id = taking.started(WantedCheckpoint(Level.VECTOR, (filled,)))
    slow = KafkaSources(taking.run(bytes_per_second=size / SECONDS))
    began = time.monotonic()
    found = replace(taking.finisher(), sources=slow, side_by_side=1).finish(id)
    # A busy machine can only take longer.
    assert time.monotonic() - began >= SECONDS
    assert (found.status, copied_bytes(found)) == (Status.COMPLETED, size)


def test_h13_s3_nodes_that_cut_their_segments_elsewhere_hold_the_same_records(
    taking: Taking, filled: str
) -> None:
    id = taking.started(WantedCheckpoint(Level.VECTOR, (filled,)))
    # Node 1 has begun as well, so that its copy is asked for though that of node 0 is whole.
    for number in range(1, PARTITIONS + 1):
        taking.store.copies.begin(CopyId(id, number, 1), None)
    found = replace(taking.finisher(), side_by_side=1).finish(id)
    small = KafkaSources(taking.run(max_segment_bytes=SEGMENT_BYTES))
    for number, source in small.open(take_of(found), cut_of(found)).items():
        copy = CopyId(id, number, 1)
        assert take_copy(taking.store.copies, copy, None, source, time.sleep) is Status.COMPLETED
    found = read(taking.store, id)
    assert found.status is Status.COMPLETED
    for part in found.partitions:
        one, other = (each.manifest for each in part.copies)
        assert one is not None
        assert other is not None
        assert one.records_digest == other.records_digest
        assert len(one.files) < len(other.files)
