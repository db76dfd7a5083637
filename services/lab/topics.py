"""Makes topics exactly where a scenario wants them, moves replicas and elects: for labs only.

Every request names each of its partitions. The product has its own, guarded, versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import WAIT_SECONDS, Cluster
from breakglass.services.model import TopicPartition

NO_ERROR = 0
ELECTION_NOT_NEEDED = 84
TOPIC_RESOURCE = 2
SET_CONFIG = 0
CONSUMER = -1
LATEST = -1
PREFERRED = 0
UNCLEAN = 1
MOST_REPLICAS = 3


def create_topic(
    cluster: Cluster,
    topic: str,
    assignments: Sequence[Sequence[int]],
    configs: Mapping[str, str] | None = None,
    *,
    timeout: float = WAIT_SECONDS,
) -> None:
    """Create *topic*: partition i on the brokers ``assignments[i]``, the first of them leading.

    Back when every running broker knows it with all replicas in sync, and its leaders lead.

    Raises:
        LabError: the cluster refused, or the replicas were not in sync in time.
    """
    create_topics(cluster, {topic: assignments}, configs, timeout=timeout)


def create_topics(
    cluster: Cluster,
    topics: Mapping[str, Sequence[Sequence[int]]],
    configs: Mapping[str, str] | None = None,
    *,
    timeout: float = WAIT_SECONDS,
) -> None:
    """`create_topic` for several topics in one request."""
    from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse

    request = CreateTopicsRequest(
        topics=[_creatable(name, assigned, configs or {}) for name, assigned in topics.items()],
        timeout_ms=int(timeout * 1000),
    )
    answer = cluster.command(request, CreateTopicsResponse, timeout=timeout)
    for topic in answer.topics:
        _check(f"create topic {topic.name}", topic)
    wait_in_sync(cluster, *topics, timeout=timeout)


def ensure_topic(cluster: Cluster, topic: str, *, partitions: int = 1) -> None:
    """Create *topic* if it is missing: replicas on up to three brokers, leaders dealt out in turn.

    Raises:
        LabError: the cluster refused.
    """
    try:
        cluster.partitions(topic)
    except LabError:
        ids = [node.id for node in cluster.brokers]
        turns = [
            ids[number % len(ids) :] + ids[: number % len(ids)] for number in range(partitions)
        ]
        create_topic(cluster, topic, [turn[:MOST_REPLICAS] for turn in turns])


def wait_in_sync(cluster: Cluster, *topics: str, timeout: float = WAIT_SECONDS) -> None:
    """Wait until every awake broker sees these topics led, with every replica in the ISR.

    A broker tells of a leader before it leads itself, so those that lead answer for their logs too.
    """

    def in_sync() -> bool:
        return all(_all_whole(cluster, topics, node.id) for node in cluster.brokers if node.awake)

    cluster.wait_until(in_sync, f"topics {', '.join(topics)} to be in sync", timeout=timeout)


def configure_topic(cluster: Cluster, topic: str, configs: Mapping[str, str]) -> None:
    """Set *configs* of the topic, leaving its others as they are."""
    from kafka.protocol.admin import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse

    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    changes = [
        resource.AlterableConfig(name=name, config_operation=SET_CONFIG, value=value)
        for name, value in configs.items()
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=changes)]
    )
    answer = cluster.command(request, IncrementalAlterConfigsResponse)
    for result in answer.responses:
        _check(f"configure topic {topic}", result)


def reassign(
    cluster: Cluster,
    assignments: Mapping[TopicPartition, Sequence[int]],
    *,
    timeout: float = WAIT_SECONDS,
) -> None:
    """Give partitions new replicas or a new order; back when the controller accepted it.

    Raises:
        LabError: the controller refused one.
    """
    from kafka.protocol.admin import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )

    topic_class = AlterPartitionReassignmentsRequest.ReassignableTopic
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=int(timeout * 1000),
        topics=[
            topic_class(
                name=topic,
                partitions=[
                    topic_class.ReassignablePartition(
                        partition_index=partition.partition, replicas=list(assignments[partition])
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in _by_topic(assignments)
        ],
    )
    answer = cluster.command(request, AlterPartitionReassignmentsResponse, timeout=timeout)
    _check("reassign", answer)
    for response in answer.responses:
        for result in response.partitions:
            _check(f"reassign {response.name}-{result.partition_index}", result)


def elect_unclean(cluster: Cluster, *partitions: TopicPartition) -> None:
    """Let the first live replica of each partition lead, whatever it lost.

    Raises:
        LabError: the controller refused one. One that has a leader already is no error.
    """
    _elect(cluster, UNCLEAN, partitions)


def elect_preferred(cluster: Cluster, *partitions: TopicPartition) -> None:
    """Let the first replica of each partition lead, which must be in the ISR."""
    _elect(cluster, PREFERRED, partitions)


def _elect(cluster: Cluster, kind: int, partitions: Sequence[TopicPartition]) -> None:
    from kafka.protocol.admin import ElectLeadersRequest, ElectLeadersResponse

    if not partitions:
        raise LabError("No partition was named for the election: name one or more.")
    request = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[
            ElectLeadersRequest.TopicPartitions(
                topic=topic, partitions=[partition.partition for partition in some]
            )
            for topic, some in _by_topic(partitions)
        ],
        timeout_ms=int(WAIT_SECONDS * 1000),
    )
    answer = cluster.command(request, ElectLeadersResponse)
    _check("elect", answer)
    for topic in answer.replica_election_results:
        for result in topic.partition_result:
            if result.error_code != ELECTION_NOT_NEEDED:
                _check(f"elect a leader of {topic.topic}-{result.partition_id}", result)


def _creatable(topic: str, assignments: Sequence[Sequence[int]], configs: Mapping[str, str]) -> Any:
    from kafka.protocol.admin import CreateTopicsRequest

    wanted = CreateTopicsRequest.CreatableTopic
    return wanted(
        name=topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            wanted.CreatableReplicaAssignment(partition_index=number, broker_ids=list(brokers))
            for number, brokers in enumerate(assignments)
        ],
        configs=[
            wanted.CreatableTopicConfig(name=name, value=value) for name, value in configs.items()
        ],
    )


def _all_whole(cluster: Cluster, topics: Sequence[str], broker: int) -> bool:
    from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

    try:
        states = cluster.partitions(*topics, via=broker)
    except LabError:
        return False
    if any(state.offline or set(state.isr) != set(state.assignment) for state in states):
        return False
    of_topic = ListOffsetsRequest.ListOffsetsTopic
    led = _by_topic(state.partition for state in states if state.leader == broker)
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        topics=[
            of_topic(
                name=topic,
                partitions=[
                    of_topic.ListOffsetsPartition(partition_index=one.partition, timestamp=LATEST)
                    for one in some
                ],
            )
            for topic, some in led
        ],
    )
    answer = cluster.read(lambda node: node.ask(request, ListOffsetsResponse), via=broker)
    answered = (partition for topic in answer.topics for partition in topic.partitions)
    return all(partition.error_code == NO_ERROR for partition in answered)


def _by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    grouped = groupby(sorted(partitions), key=lambda partition: partition.topic)
    return [(topic, list(some)) for topic, some in grouped]


def _check(what: str, result: Any) -> None:
    if result.error_code != NO_ERROR:
        reason = getattr(result, "error_message", None) or f"error {result.error_code}"
        raise LabError(f"The lab could not {what}: {reason}")
