"""Partitions of a checkpoint copied from a broker by two nodes alike."""

import time
from dataclasses import replace

import pytest

from breakglass.services.checkpoint.coordinator import take_copy
from breakglass.services.checkpoint.promises import WantedCheckpoint
from breakglass.services.checkpoint.protocol.values import CopyId, Status
from breakglass.services.checkpoint.spark.partition_copy import SMALL, KafkaSources
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.lab.cluster import Cluster
from tests.lab.backup.producing import make, produce
from tests.lab.checkpoint.taking import Taking, cut_of, read, take_of

PARTITIONS = 2
SEGMENT_BYTES = 1_000_000
VALUE = b"v" * 500


@pytest.fixture(params=[SMALL // 2, 3 * SMALL], ids=["read here", "read by Spark"])
def filled(request: pytest.FixtureRequest, whole_broker: Cluster, topic: str) -> str:
    """A topic with so many records in each partition."""
    make(whole_broker, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        values = ({"value": VALUE} for _ in range(request.param))
        produce(whole_broker, topic, values, partition)
    return topic


def test_h13_s3_nodes_that_cut_their_segments_elsewhere_hold_the_same_records(
    taking: Taking, filled: str
) -> None:
    id = taking.started(WantedCheckpoint((filled,), level=Level.VECTOR))
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
