"""What is read of offline replicas is what lies on their disks."""

from collections.abc import Iterator

import pytest

from breakglass.console.wiring import Connection
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.kafka.replicas.replica_reader import ReplicaReading
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import produce
from breakglass.services.lab.segments import high_watermark_on_disk, read_log
from breakglass.services.lab.topics import create_topic, reassign, wait_in_sync
from breakglass.services.model import (
    EpochHistory,
    PartitionEvidence,
    TopicPartition,
    Unknown,
    known,
)
from breakglass.services.recovery.evidence.gather import Evidence, gather
from tests.lab.asking import cut_head
from tests.lab.recover.elections.conftest import DURATION, read_all
from tests.lab.recover.session import reading, watched
from tests.lab.scenarios.damaged import Damaged

ORDERS = [TopicPartition("orders", number) for number in range(3)]
LEDGER = TopicPartition("ledger", 0)


@pytest.mark.parametrize("broker", [1, 2])
@pytest.mark.parametrize("partition", [*ORDERS, LEDGER], ids=str)
def test_r09_a_log_is_as_on_disk_and_a_high_watermark_unknown_where_it_was_lost(
    lab: Damaged,
    evidence: dict[TopicPartition, PartitionEvidence],
    partition: TopicPartition,
    broker: int,
) -> None:
    folder = lab.cluster.broker(broker).partition_folder(partition.topic, partition.partition)
    disk, told = read_log(folder), evidence[partition].replica(broker)
    assert folder is not None
    assert told is not None
    assert (told.log_start, told.log_end) == (disk.start, disk.end)
    assert told.epochs == EpochHistory(disk.epochs, disk.start)
    on_disk = high_watermark_on_disk(folder)
    assert told.high_watermark == on_disk if on_disk else isinstance(told.high_watermark, Unknown)


def test_every_replica_that_can_be_read_is_read(
    lab: Damaged, evidence: dict[TopicPartition, PartitionEvidence]
) -> None:
    assert set(evidence) == {partition.partition for partition in lab.truth.partitions}
    for truth in lab.truth.partitions:
        for replica in truth.replicas:
            told = evidence[truth.partition].replica(replica.broker)
            assert told is not None
            log_end = told.log_end if known(told.log_end) else None
            assert log_end == (replica.log_end if replica.readable else None)


def test_the_dead_broker_is_fenced_and_named(
    lab: Damaged, evidence: dict[TopicPartition, PartitionEvidence]
) -> None:
    """Old clusters do not even tell where it was."""
    dead = evidence[LEDGER].replica(3)
    assert dead is not None
    assert (dead.fenced, dead.reachable) == (True, False)
    old = lab.truth.kafka_version == "3.9.2"
    why = "no address known" if old else "connection refused"
    assert dead.log_end == Unknown(f"b3 does not answer ({why})")


@pytest.fixture
def without_b2(lab: Damaged) -> Iterator[Cluster]:
    """b2 is stopped by SIGSTOP while it is registered and unfenced; it goes on afterwards."""
    lab.cluster.broker(2).pause()
    yield lab.cluster
    lab.cluster.broker(2).resume()
    lab.cluster.wait_ready()


@pytest.mark.parametrize("first", [1, 2])
def test_a_stopped_broker_hides_no_other_and_is_named(
    lab: Damaged, without_b2: Cluster, first: int
) -> None:
    """Also when it is the first bootstrap server."""
    servers = [f"{without_b2.broker(one).address()}" for one in (first, 3 - first)]
    with Connection(ConnectionOptions(",".join(servers))).reading() as client:
        yielded = list(read_all(client))
    healthy, last = yielded[0], yielded[-1]
    for evidence in (healthy, last):
        told = {partition.partition: partition for partition in evidence.partitions}
        assert [log_end(told[partition], 1) for partition in (*ORDERS, LEDGER)] == [
            lab.truth_of(partition).replica(1).log_end for partition in (*ORDERS, LEDGER)
        ]
        assert log_end(told[LEDGER], 2) is None
    assert last.silent[2].startswith("b2 does not answer")
    assert last.awaited == frozenset()


def test_r25_a_replica_that_comes_back_during_the_reading_is_read(lab: Damaged) -> None:
    """b1 is fenced when the reading begins, which then waits for b2."""
    lab.cluster.broker(1).stop()
    lab.cluster.wait_fenced(1)
    with watched(lab.cluster) as behind, behind.connection.reading() as client:
        snapshot = client.snapshot(Deadline.after(DURATION))
        behind.proxies[2].hang()
        told = gather(client, snapshot, snapshot.offline, Deadline.after(DURATION))
        ledger = ledger_in(next(told))
        assert (log_end(ledger, 1), log_end(ledger, 2)) == (None, None)
        lab.cluster.broker(1).start()
        ends = (log_end(ledger_in(evidence), 1) for evidence in told)
        found = next(end for end in ends if end is not None)
        assert found == lab.truth_of(LEDGER).replica(1).log_end
        behind.proxies[2].heal()
    lab.cluster.wait_ready()


def ledger_in(evidence: Evidence) -> PartitionEvidence:
    (found,) = [one for one in evidence.partitions if one.partition == LEDGER]
    return found


def log_end(evidence: PartitionEvidence, broker: int) -> int | None:
    replica = evidence.replica(broker)
    assert replica is not None
    return replica.log_end if known(replica.log_end) else None


COUNT = 100


def read(cluster: Cluster, partition: TopicPartition, broker: int) -> ReplicaReading:
    topic_id = cluster.partition(partition.topic, partition.partition).topic_id
    with reading(cluster) as client:
        client.describe(Deadline.after(10.0))
        reader = client.replicas_on(broker)
        return reader.read({partition: topic_id}, Deadline.after(10.0))[partition]


def assert_empty(told: ReplicaReading) -> None:
    assert (told.log_start, told.high_watermark, told.log_end) == (COUNT, COUNT, COUNT)
    assert told.epochs == EpochHistory((), COUNT)
    assert told.newest_ms is None


def test_a_log_whose_records_were_all_deleted(three_brokers: Cluster) -> None:
    expired = TopicPartition("all-deleted", 0)
    create_topic(three_brokers, expired.topic, [[1, 2]])
    produce(three_brokers, expired.topic, expired.partition, COUNT)
    cut_head(three_brokers, expired, COUNT)
    for broker in (1, 2):
        assert_empty(read(three_brokers, expired, broker))


def test_a_replica_that_joined_when_all_had_been_deleted(three_brokers: Cluster) -> None:
    """It never knew a leader epoch: its cache is empty, and only its log start tells."""
    joined = TopicPartition("joined-late", 0)
    create_topic(three_brokers, joined.topic, [[1]])
    produce(three_brokers, joined.topic, joined.partition, COUNT)
    cut_head(three_brokers, joined, COUNT)
    reassign(three_brokers, {joined: [1, 2]})
    three_brokers.wait_partition(
        joined.topic, joined.partition, lambda state: set(state.isr) == {1, 2}, "b2 to join"
    )
    wait_in_sync(three_brokers, joined.topic)
    assert_empty(read(three_brokers, joined, 2))
