"""Elections and reorders as KRaft's controller holds them, on fake brokers, with scripted mishaps.

Follows ReplicationControlManager.electLeaders and PartitionChangeBuilder.electAnyLeader of
Kafka 4.3.1: live ISR, live ELR, the last known leader, and for unclean elections the assignment.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

from breakglass.services.kafka.wire.messages.kip1275 import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from breakglass.services.lab.rewriting import refusal
from breakglass.services.model import PartitionState, TopicPartition
from tests.kit.fake_broker import HangUp, Reply
from tests.kit.fake_cluster import FakeCluster

NO_PARTITION, INVALID_ASSIGNMENT, NOT_AVAILABLE, NOT_NEEDED = 3, 39, 83, 84

Answer = Callable[[Any], Reply]
Act = Callable[[Any, Answer], Reply]
"""Takes a request and the controller's own way to answer it."""


class FakeController:
    """Serves elections and reorders on every broker of *cluster*, and changes its story."""

    def __init__(self, cluster: FakeCluster, *, designates: bool = False) -> None:
        self.story = cluster.story
        self.brokers = cluster.brokers
        self._acts: dict[Any, list[Act]] = {}
        for broker in cluster.brokers.values():
            broker.serve(
                AlterPartitionReassignmentsRequest,
                lambda request: self._served(request, self.reorder),
            )
            broker.serve(
                ElectLeadersRequest,
                lambda request: self._served(request, self.elect),
                (0, 3 if designates else 2),
            )

    def next(self, request_class: Any, *acts: Act) -> None:
        """Let *acts* answer the next requests of one api, one each."""
        self._acts.setdefault(request_class.API_KEY, []).extend(acts)

    @property
    def steps(self) -> list[str]:
        """What was asked for, oldest first: ``reorder``, ``elect``, ``designate``."""
        return [_step(one) for one in self._sent()]

    @property
    def partitions(self) -> list[int]:
        """How many partitions each of `steps` named."""
        topics = [getattr(one, "topic_partitions", None) or one.topics for one in self._sent()]
        return [sum(len(topic.partitions) for topic in some) for some in topics]

    def _sent(self) -> list[Any]:
        received = [received for broker in self.brokers.values() for received in broker.received]
        keys = (AlterPartitionReassignmentsRequest.API_KEY, ElectLeadersRequest.API_KEY)
        wanted = [one for one in received if one.api_key in keys]
        return [received.message for received in sorted(wanted, key=lambda one: one.at)]

    def _served(self, request: Any, answer: Answer) -> Reply:
        acts = self._acts.get(request.API_KEY)
        return acts.pop(0)(request, answer) if acts else answer(request)

    def reorder(self, request: Any) -> Reply:
        """Write the orders; each write runs an online election (R1)."""
        topic_class = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
        partition_class = topic_class.ReassignablePartitionResponse
        return AlterPartitionReassignmentsResponse(
            responses=[
                topic_class(
                    name=topic.name,
                    partitions=[
                        partition_class(
                            partition_index=partition.partition_index,
                            error_code=self._reorder(
                                TopicPartition(topic.name, partition.partition_index),
                                tuple(partition.replicas),
                            ),
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def elect(self, request: Any) -> Reply:
        """Hold the elections."""
        result_class = ElectLeadersResponse.ReplicaElectionResult
        return ElectLeadersResponse(
            replica_election_results=[
                result_class(
                    topic=topic.topic,
                    partition_result=[
                        result_class.PartitionResult(
                            partition_id=partition.partition,
                            error_code=self._elect(partition, request.election_type, designee),
                        )
                        for partition, designee in _named(topic)
                    ],
                )
                for topic in request.topic_partitions
            ]
        )

    def _reorder(self, partition: TopicPartition, order: tuple[int, ...]) -> int:
        state = self.story.states.get(partition)
        if state is None:
            return NO_PARTITION
        if not set(order) <= set(self.story.addresses):
            return INVALID_ASSIGNMENT
        state = replace(state, assignment=order)
        self.story.states[partition] = state
        if state.offline:
            self._lead(state, self._preferred_by_all(state))
        return 0

    def _elect(self, partition: TopicPartition, election: int, designee: int | None) -> int:
        state = self.story.states.get(partition)
        if state is None:
            return NO_PARTITION
        if state.leader is not None:
            return NOT_NEEDED
        if election == ElectionType.DESIGNATED:
            live = designee in state.assignment and designee not in self.story.fenced
            leader = designee if live else None
        else:
            leader = self._preferred_by_all(state) or next(
                (number for number in state.assignment if number not in self.story.fenced), None
            )
        self._lead(state, leader)
        return NOT_AVAILABLE if leader is None else 0

    def _preferred_by_all(self, state: PartitionState) -> int | None:
        """Whom any election elects before it looks at the assignment."""
        sets = (state.isr, state.elr, state.last_known_elr)
        members = [number for some in sets if isinstance(some, tuple) for number in some]
        return next((member for member in members if member not in self.story.fenced), None)

    def _lead(self, state: PartitionState, leader: int | None) -> None:
        if leader is not None:
            self.story.states[state.partition] = replace(
                state,
                leader=leader,
                leader_epoch=state.leader_epoch + 1,
                isr=(leader,),
                elr=(),
                last_known_elr=(),
            )


def unanswered(request: Any, answer: Answer) -> Reply:
    """Carried out, and the connection breaks in place of the answer."""
    answer(request)
    raise HangUp


def unheard(_: Any, __: Answer) -> Reply:
    """The connection breaks before anything is carried out."""
    raise HangUp


def silent(request: Any, answer: Answer) -> Reply:
    """Carried out, and no answer comes."""
    answer(request)
    return None


def failing(code: int) -> Act:
    """Refused with *code* for each partition."""

    def act(request: Any, _: Answer) -> Reply:
        if request.API_KEY == ElectLeadersRequest.API_KEY:
            return _election_errors(request, code)
        return refusal(request, AlterPartitionReassignmentsResponse, code)

    return act


def after(change: Callable[[], object]) -> Act:
    """Something happens to the cluster first."""

    def act(request: Any, answer: Answer) -> Reply:
        change()
        return answer(request)

    return act


def _step(request: Any) -> str:
    if request.API_KEY == AlterPartitionReassignmentsRequest.API_KEY:
        return "reorder"
    return "designate" if request.election_type == ElectionType.DESIGNATED else "elect"


def _named(topic: Any) -> Iterator[tuple[TopicPartition, int | None]]:
    designees = topic.designated_leaders or [None] * len(topic.partitions)
    for number, designee in zip(topic.partitions, designees, strict=True):
        yield TopicPartition(topic.topic, number), designee


def _election_errors(request: Any, code: int) -> Reply:
    result_class = ElectLeadersResponse.ReplicaElectionResult
    return ElectLeadersResponse(
        replica_election_results=[
            result_class(
                topic=topic.topic,
                partition_result=[
                    result_class.PartitionResult(partition_id=partition, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topic_partitions
        ]
    )
