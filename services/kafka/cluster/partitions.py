"""Reads every partition with leader, epoch, assignment, ISR and ELR, page by page.

A broker that is cut off from its controllers still answers, with the metadata that it had. The
leader epoch rises with each change of the leader, so the highest one is of the newest metadata.
Reassignments under way are read so that no election interferes with them (R12).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

from breakglass.services import patience
from breakglass.services.errors import (
    BreakglassError,
    MalformedMessage,
    TimedOut,
    UnsupportedByCluster,
)
from breakglass.services.kafka.wire.answers import (
    UNKNOWN_TOPIC_OR_PARTITION,
    Unchanged,
    cluster_error,
    unbelievable,
    unread,
)
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import (
    PartitionState,
    Reassignment,
    TopicPartition,
    Unknown,
    legal_topic,
)

PAGE_PARTITIONS = 2000
"""Partitions that a broker returns at most by default (max.request.partition.size.limit)."""

MOST_PARTITIONS = 1_000_000
"""More than a cluster has; an answer that never ends has more."""

Ids = tuple[int, ...]

NO_ELR = Unknown("this cluster does not record eligible leader replicas (before Kafka 4.0)")
NO_ELR_API = Unknown("this cluster has no DescribeTopicPartitions (before Kafka 3.8)")


@dataclass(frozen=True, slots=True, eq=False)
class PartitionPage:
    """One answer: partitions, and the partition at which the next page begins."""

    partitions: tuple[PartitionState, ...]
    next: TopicPartition | None
    first: TopicPartition | None
    last: TopicPartition | None
    possible: bool
    """Whether a broker can give this answer."""


class Pages:
    """The pages of the last reading, by their first partition: an unchanged page is reused.

    If every page is unchanged, the reading returns the same tuple as before.
    """

    def __init__(self) -> None:
        self._answers: dict[TopicPartition | None, Unchanged[PartitionPage]] = {}
        self._pages: list[PartitionPage] = []
        self._partitions: tuple[PartitionState, ...] = ()

    def answer(self, begin: TopicPartition | None, response_class: Any) -> Unchanged[PartitionPage]:
        """The response class that decodes the page that begins at *begin*."""
        if begin not in self._answers:
            self._answers[begin] = Unchanged(response_class, _page)
        return self._answers[begin]

    def together(self, pages: list[PartitionPage]) -> tuple[PartitionState, ...]:
        """The partitions of all *pages*, which are kept as the last reading."""
        if pages != self._pages:
            begins = {None, *(page.next for page in pages)}
            self._answers = {one: held for one, held in self._answers.items() if one in begins}
            self._pages = pages
            self._partitions = tuple(chain.from_iterable(page.partitions for page in pages))
        return self._partitions


def read_partitions(
    sender: Sender,
    deadline: Deadline,
    topics: Sequence[str] = (),
    only: Collection[TopicPartition] = (),
    pages: Pages | None = None,
    *,
    broker: int = ANY_BROKER,
) -> tuple[PartitionState, ...]:
    """Every partition of *topics*, or of all topics, as *broker* knows it.

    With *only*, partitions before the first and after the last of these may be left out, so that
    a few partitions of a large topic cost little. Topics that do not exist are absent from the
    result. *pages* are those of the previous reading of the same topics.

    Raises:
        Unreachable: the broker stopped answering before the last page.
        NotAuthorized: a named topic may not be described.
        MalformedMessage: the answer cannot be a broker's.
    """
    held = Pages() if pages is None else pages
    try:
        read = list(_pages(sender, deadline, topics, only, held, broker))
    except UnsupportedByCluster:
        states = tuple(_from_metadata(sender, deadline, topics, broker))
        if len({state.partition for state in states}) < len(states) or not _possible(states):
            raise _impossible(sender, broker) from None
        return states
    return held.together(read)


def _impossible(sender: Sender, broker: int) -> MalformedMessage:
    return unbelievable(
        sender.name(broker),
        "tells of a partition twice, of one or a replica below 0, or of a topic that cannot be",
    )


def _possible(states: Collection[PartitionState]) -> bool:
    """Whether all names of topics, and numbers of partitions and of their replicas, can be."""
    if not all(map(legal_topic, {state.partition.topic for state in states})):
        return False
    sets = {state.assignment for state in states} | {state.isr for state in states}
    return all(min(ids, default=0) >= 0 for ids in sets) and not any(
        state.partition.partition < 0 or state.leader_epoch < -1 for state in states
    )


def _pages(
    sender: Sender,
    deadline: Deadline,
    topics: Sequence[str],
    only: Collection[TopicPartition],
    pages: Pages,
    broker: int,
) -> Iterator[PartitionPage]:
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
    )

    begin, last = min(only, default=None), max(only, default=None)
    found = 0
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[
                DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in sorted(topics)
            ],
            response_partition_limit=_room(begin, last),
            cursor=None
            if begin is None
            else DescribeTopicPartitionsRequest.Cursor(
                topic_name=begin.topic, partition_index=begin.partition
            ),
        )
        answer = pages.answer(begin, DescribeTopicPartitionsResponse)
        limit = deadline.sooner(patience.REQUEST)
        page: PartitionPage = sender.call(broker, request, answer, limit).value
        found += len(page.partitions)
        if not page.possible or found > MOST_PARTITIONS or not _follows(page, begin):
            raise _impossible(sender, broker)
        yield page
        begin = page.next
        if begin is None or (last is not None and begin > last):
            return


def _page(answer: Any) -> PartitionPage:
    cursor = answer.next_cursor
    alike: dict[Ids, Ids] = {}
    states = tuple([state for topic in answer.topics for state in _topic(topic, alike)])
    after = None if cursor is None else TopicPartition(cursor.topic_name, cursor.partition_index)
    once = len({state.partition for state in states}) == len(states)
    found = [state.partition for state in states]
    first, last = min(found, default=None), max(found, default=None)
    return PartitionPage(states, after, first, last, once and _possible(states))


def _follows(page: PartitionPage, begin: TopicPartition | None) -> bool:
    """Whether *page*, which was to begin at *begin*, has what lies between it and the next one."""
    ordered = [one for one in (begin, page.first, page.last) if one is not None]
    goes_on = page.next is None or all(one < page.next for one in ordered)
    return goes_on and ordered == sorted(ordered)


def _room(begin: TopicPartition | None, last: TopicPartition | None) -> int:
    """How many partitions an answer may have: no more than are wanted, where that is known."""
    if begin is None or last is None or begin.topic != last.topic:
        return PAGE_PARTITIONS
    return min(PAGE_PARTITIONS, last.partition - begin.partition + 1)


def _topic(topic: Any, alike: dict[Ids, Ids]) -> Iterator[PartitionState]:
    """The partitions of *topic*; *alike* shares equal broker sets, since few sets are distinct."""
    if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return
    if topic.error_code:
        raise cluster_error(
            topic.error_code, f"describing topic {topic.name}", f"DESCRIBE on topic {topic.name}"
        )
    for partition in topic.partitions:
        yield PartitionState(
            partition=TopicPartition(topic.name, partition.partition_index),
            topic_id=topic.topic_id,
            leader=partition.leader_id if partition.leader_id >= 0 else None,
            leader_epoch=partition.leader_epoch,
            assignment=_ids(partition.replica_nodes, alike),
            isr=_ids(partition.isr_nodes, alike),
            elr=_ids_or_unknown(partition.eligible_leader_replicas, alike),
            last_known_elr=_ids_or_unknown(partition.last_known_elr, alike),
            offline_replicas=_ids(partition.offline_replicas, alike),
        )


def _ids_or_unknown(replicas: list[int] | None, alike: dict[Ids, Ids]) -> Ids | Unknown:
    return NO_ELR if replicas is None else _ids(replicas, alike)


def _ids(replicas: list[int], alike: dict[Ids, Ids]) -> Ids:
    ids = tuple(replicas)
    return alike.setdefault(ids, ids)


def _from_metadata(
    sender: Sender, deadline: Deadline, topics: Sequence[str], broker: int
) -> Iterator[PartitionState]:
    """The partitions from Metadata, without ELR, for brokers before Kafka 3.8."""
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=wanted or None, allow_auto_topic_creation=False)
    answer = sender.call(broker, request, MetadataResponse, deadline)
    for topic in answer.topics:
        if topic.error_code:
            continue
        for partition in topic.partitions:
            yield PartitionState(
                partition=TopicPartition(topic.name, partition.partition_index),
                topic_id=topic.topic_id,
                leader=partition.leader_id if partition.leader_id >= 0 else None,
                leader_epoch=partition.leader_epoch,
                assignment=tuple(partition.replica_nodes),
                isr=tuple(partition.isr_nodes),
                elr=NO_ELR_API,
                last_known_elr=NO_ELR_API,
                offline_replicas=tuple(partition.offline_replicas),
            )


UNANSWERED = Unknown("the controllers did not answer in time")


def read_reassignments(
    sender: Sender, deadline: Deadline
) -> dict[TopicPartition, Reassignment] | Unknown:
    """Every reassignment under way, or why they are not known."""
    from breakglass.services.kafka.wire.messages.reading import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )

    limit = deadline.sooner(patience.CONTROLLER)
    request = ListPartitionReassignmentsRequest(
        timeout_ms=int(limit.remaining() * 1000), topics=None
    )
    try:
        answer = sender.call(
            ANY_BROKER, request, ListPartitionReassignmentsResponse, limit, lane="reassignments"
        )
        if answer.error_code:
            raise cluster_error(
                answer.error_code,
                "listing reassignments",
                "DESCRIBE on CLUSTER",
                answer.error_message,
            )
    except TimedOut:
        # A broker forwards this request, and goes on answering all that needs no controller.
        return UNANSWERED
    except BreakglassError as error:
        return unread(error)
    return {
        TopicPartition(topic.name, partition.partition_index): Reassignment(
            tuple(partition.adding_replicas), tuple(partition.removing_replicas)
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


def read_newest_partitions(
    sender: Sender, states: Sequence[PartitionState], brokers: Collection[int], deadline: Deadline
) -> tuple[PartitionState, ...]:
    """The partitions of *states*; those without leader as the *brokers* with the newest know them.

    Brokers that refuse, or do not answer within `patience.LOOK` and a tenth of the time that is
    left, change nothing.
    """
    offline = [state.partition for state in states if state.offline]
    topics = sorted({partition.topic for partition in offline})
    limit = deadline.sooner(min(patience.LOOK, deadline.remaining() / 10))

    def known_to(broker: int) -> tuple[PartitionState, ...]:
        try:
            return read_partitions(sender, limit, topics, offline, broker=broker)
        except BreakglassError:
            return ()

    if not offline or not brokers:
        return tuple(states)
    with ThreadPoolExecutor(len(brokers), "newest") as threads:
        answers = [state for answer in threads.map(known_to, brokers) for state in answer]
    others: dict[TopicPartition, list[PartitionState]] = {}
    for answer in answers:
        others.setdefault(answer.partition, []).append(answer)
    return tuple(newest(state, others.get(state.partition, ())) for state in states)


def newest(state: PartitionState, others: Collection[PartitionState]) -> PartitionState:
    """*state*, or one of *others* of the same topic with a higher leader epoch."""
    same = [other for other in others if other.topic_id == state.topic_id]
    return max((state, *same), key=lambda known: known.leader_epoch)
