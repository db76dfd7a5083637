"""What tests ask the lab's brokers directly, apart from the product's clients."""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as Position

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.segments import DiskLog, read_log
from breakglass.services.model import PartitionState, TopicPartition
from tests.kit.commits import commit_offsets
from tests.kit.waiting import DEADLINE_SECONDS

DEBUGGING = -2
CONSUMER = -1
LATEST = -1
EARLIEST = -2
ANSWER_SECONDS = DEADLINE_SECONDS
NO_LOG = logging.getLogger("librdkafka of the tests")
NO_LOG.addHandler(logging.NullHandler())


class Listed(NamedTuple):
    """One answer to ListOffsets."""

    error: int
    offset: int
    epoch: int


def on_disk(cluster: Cluster, broker: int, partition: TopicPartition) -> DiskLog:
    """The log of *broker*, whether it runs or not."""
    folder = cluster.broker(broker).partition_folder(partition.topic, partition.partition)
    return read_log(folder)


def list_offset(
    cluster: Cluster,
    broker: int,
    partition: TopicPartition,
    timestamp: int = LATEST,
    *,
    replica: int = DEBUGGING,
) -> Listed:
    """What *broker* tells of its replica."""
    from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

    topic = ListOffsetsRequest.ListOffsetsTopic
    wanted = topic.ListOffsetsPartition(partition_index=partition.partition, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=replica, topics=[topic(name=partition.topic, partitions=[wanted])]
    )
    answer = cluster.read(lambda node: node.ask(request, ListOffsetsResponse), via=broker)
    told = answer.topics[0].partitions[0]
    return Listed(told.error_code, told.offset, told.leader_epoch)


def reassignments(cluster: Cluster) -> dict[TopicPartition, tuple[list[int], list[int], list[int]]]:
    """Replicas, adding and removing, of what is being reassigned."""
    from kafka.protocol.admin import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )

    request = ListPartitionReassignmentsRequest(timeout_ms=5_000, topics=None)
    answer = cluster.command(request, ListPartitionReassignmentsResponse)
    return {
        TopicPartition(topic.name, partition.partition_index): (
            partition.replicas,
            partition.adding_replicas,
            partition.removing_replicas,
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


def reassign_code(
    cluster: Cluster, partition: TopicPartition, replicas: list[int] | None
) -> tuple[int, str | None]:
    """The answer to one AlterPartitionReassignments; None cancels what is under way."""
    from kafka.protocol.admin import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )

    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    wanted = topic.ReassignablePartition(partition_index=partition.partition, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=5_000, topics=[topic(name=partition.topic, partitions=[wanted])]
    )
    answer = cluster.command(request, AlterPartitionReassignmentsResponse)
    assert answer.error_code == 0
    result = answer.responses[0].partitions[0]
    return result.error_code, result.error_message


def election_code(cluster: Cluster, partition: TopicPartition) -> tuple[int, str | None]:
    """The answer to one unclean ElectLeaders."""
    answer = cluster.command(*unclean_election(partition))
    assert answer.error_code == 0
    result = answer.replica_election_results[0].partition_result[0]
    return result.error_code, result.error_message


def unclean_election(partition: TopicPartition) -> tuple[Any, Any]:
    """The request, and the class of its answer."""
    from kafka.protocol.admin import ElectLeadersRequest, ElectLeadersResponse

    topic = ElectLeadersRequest.TopicPartitions(
        topic=partition.topic, partitions=[partition.partition]
    )
    request = ElectLeadersRequest(election_type=1, topic_partitions=[topic], timeout_ms=5_000)
    return request, ElectLeadersResponse


def open_transactions(cluster: Cluster, broker: int, partition: TopicPartition) -> dict[int, int]:
    """First offset of the open transaction of each producer that has one."""
    from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse

    topic = DescribeProducersRequest.TopicRequest(
        name=partition.topic, partition_indexes=[partition.partition]
    )
    request = DescribeProducersRequest(topics=[topic])
    answer = cluster.read(lambda node: node.ask(request, DescribeProducersResponse), via=broker)
    told = answer.topics[0].partitions[0]
    assert told.error_code == 0
    return {
        producer.producer_id: producer.current_txn_start_offset
        for producer in told.active_producers
        if producer.current_txn_start_offset >= 0
    }


@contextmanager
def lab_consumer(cluster: Cluster, group: str, **settings: Any) -> Iterator[Consumer]:
    """A member of *group* that comes in as the lab itself does; ``isolation_level`` and others."""
    told = {name.replace("_", "."): value for name, value in settings.items()}
    servers = {"bootstrap.servers": cluster.lab_bootstrap, "group.id": group}
    # At the end of a log a broker answers soon.
    quick = {"enable.auto.commit": False, "fetch.wait.max.ms": 10}
    with closing(Consumer({**servers, **quick, **told}, logger=NO_LOG)) as found:
        yield found


def transactional(cluster: Cluster, transactional_id: str, **settings: Any) -> Producer:
    """A producer that may begin transactions and comes in as the lab itself does."""
    told = {name.replace("_", "."): value for name, value in settings.items()}
    servers = {"bootstrap.servers": cluster.lab_bootstrap, "transactional.id": transactional_id}
    producer = Producer({**servers, **told}, logger=NO_LOG)
    producer.init_transactions(ANSWER_SECONDS)
    return producer


def delete_topic(cluster: Cluster, topic: str) -> None:
    """Delete *topic*, and wait until brokers no longer know it."""
    from kafka.protocol.admin import DeleteTopicsRequest, DeleteTopicsResponse

    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.DeleteTopicState(name=topic)], timeout_ms=10_000
    )
    answer = cluster.command(request, DeleteTopicsResponse)
    assert [response.error_code for response in answer.responses] == [0]
    cluster.wait_until(
        lambda: topic not in {state.partition.topic for state in cluster.partitions()},
        f"{topic} to be gone",
    )


def cut_head(cluster: Cluster, partition: TopicPartition, offset: int) -> PartitionState:
    """Delete what lies before *offset*; back when every replica in sync begins there."""
    from kafka.protocol.admin import DeleteRecordsRequest, DeleteRecordsResponse

    state = cluster.partition(partition.topic, partition.partition)
    topic = DeleteRecordsRequest.DeleteRecordsTopic
    wanted = topic.DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[topic(name=partition.topic, partitions=[wanted])], timeout_ms=10_000
    )
    answer = cluster.read(
        lambda node: node.ask(request, DeleteRecordsResponse), via=state.leader, timeout=10.0
    )
    assert answer.topics[0].partitions[0].error_code == 0
    cluster.wait_until(
        lambda: all(
            list_offset(cluster, broker, partition, EARLIEST).offset == offset
            for broker in state.isr
        ),
        f"{partition} to begin at {offset}",
    )
    return state


def messages(
    cluster: Cluster, partition: TopicPartition, *, isolation: str = "read_committed"
) -> Iterator[Message]:
    """All that a consumer gets to read, from the log's first record to its end."""
    whole = {"enable_partition_eof": True, "auto_offset_reset": "earliest"}
    with lab_consumer(cluster, "tests", **whole, isolation_level=isolation) as consumer:
        consumer.assign([Position(partition.topic, partition.partition, 0)])
        while (message := consumer.poll(ANSWER_SECONDS)) is not None:
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return
            assert error is None, error
            yield message
    raise AssertionError(f"{partition} did not come to an end")


def consume(
    cluster: Cluster, partition: TopicPartition, *, isolation: str = "read_uncommitted"
) -> dict[int, str]:
    """Keys by offset of all that a consumer gets to read."""
    found = messages(cluster, partition, isolation=isolation)
    return {int(one.offset() or 0): (one.key() or b"").decode() for one in found}


def out_of_range(cluster: Cluster, partition: TopicPartition, offset: int) -> bool:
    """Whether a consumer that goes on from *offset* is told that there is no such offset."""
    with lab_consumer(cluster, "tests", auto_offset_reset="error") as consumer:
        consumer.assign([Position(partition.topic, partition.partition, offset)])
        message = consumer.poll(ANSWER_SECONDS)
        error = None if message is None else message.error()
        return error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET


def committed_offset(cluster: Cluster, group: str, partition: TopicPartition) -> int:
    """What *group* committed."""
    with lab_consumer(cluster, group) as consumer:
        asked = [Position(partition.topic, partition.partition)]
        return int(consumer.committed(asked, timeout=ANSWER_SECONDS)[0].offset)


def commit(
    cluster: Cluster, group: str, partition: TopicPartition, offset: int, epoch: int = -1
) -> None:
    """Let *group* commit *offset*, as a consumer that has read so far."""
    position = Position(partition.topic, partition.partition, offset, leader_epoch=epoch)
    with lab_consumer(cluster, group) as consumer:
        commit_offsets(consumer, [position])
