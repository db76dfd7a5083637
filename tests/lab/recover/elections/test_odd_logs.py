"""Logs that are empty and do not begin at 0, on whole brokers: known to be empty, not unread."""

from breakglass.services.kafka.replicas.replica_reader import ReplicaReading
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import produce
from breakglass.services.lab.topics import create_topic, reassign, wait_in_sync
from breakglass.services.model import EpochHistory, TopicPartition
from tests.lab.asking import EARLIEST, list_offset
from tests.lab.recover.session import reading

COUNT = 100


def read(cluster: Cluster, partition: TopicPartition, broker: int) -> ReplicaReading:
    topic_id = cluster.partition(partition.topic, partition.partition).topic_id
    with reading(cluster) as client:
        client.describe(Deadline.after(10.0))
        reader = client.replicas_on(broker)
        return reader.read({partition: topic_id}, Deadline.after(10.0))[partition]


def delete_all(cluster: Cluster, partition: TopicPartition) -> None:
    """Delete what was committed; back when every replica begins where it ends."""
    from kafka.protocol.admin import DeleteRecordsRequest, DeleteRecordsResponse

    state = cluster.partition(partition.topic, partition.partition)
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    wanted = topic.DeleteRecordsPartition(partition_index=partition.partition, offset=COUNT)
    request = DeleteRecordsRequest(
        topics=[topic(name=partition.topic, partitions=[wanted])], timeout_ms=10_000
    )
    answer = cluster.read(lambda node: node.ask(request, DeleteRecordsResponse), via=state.leader)
    assert answer.topics[0].partitions[0].error_code == 0
    cluster.wait_until(
        lambda: all(
            list_offset(cluster, broker, partition, EARLIEST).offset == COUNT
            for broker in state.assignment
        ),
        f"{partition} to hold nothing",
    )


def assert_empty(told: ReplicaReading) -> None:
    assert (told.log_start, told.high_watermark, told.log_end) == (COUNT, COUNT, COUNT)
    assert told.epochs == EpochHistory((), COUNT)
    assert told.newest_ms is None


def test_a_log_whose_records_were_all_deleted(three_brokers: Cluster) -> None:
    expired = TopicPartition("all-deleted", 0)
    create_topic(three_brokers, expired.topic, [[1, 2]])
    produce(three_brokers, expired.topic, expired.partition, COUNT)
    delete_all(three_brokers, expired)
    for broker in (1, 2):
        assert_empty(read(three_brokers, expired, broker))


def test_a_replica_that_joined_when_all_had_been_deleted(three_brokers: Cluster) -> None:
    """It never knew a leader epoch: its cache is empty, and only its log start tells."""
    joined = TopicPartition("joined-late", 0)
    create_topic(three_brokers, joined.topic, [[1]])
    produce(three_brokers, joined.topic, joined.partition, COUNT)
    delete_all(three_brokers, joined)
    reassign(three_brokers, {joined: [1, 2]})
    three_brokers.wait_partition(
        joined.topic, joined.partition, lambda state: set(state.isr) == {1, 2}, "b2 to join"
    )
    wait_in_sync(three_brokers, joined.topic)
    assert_empty(read(three_brokers, joined, 2))
