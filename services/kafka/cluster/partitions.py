"""Every partition with leader, epoch, assignment, ISR and ELR, from all pages of the answer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from breakglass.services.errors import UnsupportedByCluster
from breakglass.services.kafka.wire.broker_errors import UNKNOWN_TOPIC_OR_PARTITION, cluster_error
from breakglass.services.kafka.wire.cached_answers import Unchanged
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.model import PartitionState, TopicPartition, Unknown

PAGE_PARTITIONS = 2000
"""What a broker serves in one answer by default (max.request.partition.size.limit)."""
PAGE_SECONDS = 10.0
"""How long one page may take, where there is time for many."""

Ids = tuple[int, ...]

NO_ELR = Unknown("this cluster does not record eligible leader replicas (before Kafka 4.0)")
NO_ELR_API = Unknown("this cluster has no DescribeTopicPartitions (before Kafka 3.8)")


@dataclass(frozen=True, slots=True, eq=False)
class PartitionPage:
    """One answer: partitions, and with which one the next page begins."""

    partitions: tuple[PartitionState, ...]
    next: TopicPartition | None


class Pages:
    """The pages of the last reading, by their beginning: what is told again is not made again.

    A reading of which every page is the same is the very same tuple.
    """

    def __init__(self) -> None:
        self._answers: dict[TopicPartition | None, Unchanged[PartitionPage]] = {}
        self._pages: list[PartitionPage] = []
        self._partitions: tuple[PartitionState, ...] = ()

    def answer(self, begin: TopicPartition | None, response_class: Any) -> Unchanged[PartitionPage]:
        """What the page that begins there is decoded with."""
        if begin not in self._answers:
            self._answers[begin] = Unchanged(response_class, _page)
        return self._answers[begin]

    def together(self, pages: list[PartitionPage]) -> tuple[PartitionState, ...]:
        """The partitions of all *pages*, which are the last from now on."""
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
) -> tuple[PartitionState, ...]:
    """Every partition of *topics*, or of all topics.

    Where *only* some of them matter, those before the first and after the last need not be
    read: a few of a topic with thousands cost no more than of a small one. Topics that do not
    exist are absent from the answer. *pages* are those of the same question asked before.

    Raises:
        Unreachable: the broker stopped answering before the last page.
        NotAuthorized: a named topic may not be described.
    """
    held = Pages() if pages is None else pages
    try:
        read = list(_pages(sender, deadline, topics, only, held))
    except UnsupportedByCluster:
        return tuple(_from_metadata(sender, deadline, topics))
    return held.together(read)


def _pages(
    sender: Sender,
    deadline: Deadline,
    topics: Sequence[str],
    only: Collection[TopicPartition],
    pages: Pages,
) -> Iterator[PartitionPage]:
    from breakglass.services.kafka.wire.messages.reading import (
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
    )

    begin, last = min(only, default=None), max(only, default=None)
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
        limit = deadline.sooner(PAGE_SECONDS)
        page: PartitionPage = sender.call(ANY_BROKER, request, answer, limit).value
        yield page
        begin = page.next
        if begin is None or (last is not None and begin > last):
            return


def _page(answer: Any) -> PartitionPage:
    cursor = answer.next_cursor
    alike: dict[Ids, Ids] = {}
    return PartitionPage(
        tuple([state for topic in answer.topics for state in _topic(topic, alike)]),
        None if cursor is None else TopicPartition(cursor.topic_name, cursor.partition_index),
    )


def _room(begin: TopicPartition | None, last: TopicPartition | None) -> int:
    """How many partitions an answer may hold: no more than matter, where that is known."""
    if begin is None or last is None or begin.topic != last.topic:
        return PAGE_PARTITIONS
    return min(PAGE_PARTITIONS, last.partition - begin.partition + 1)


def _topic(topic: Any, alike: dict[Ids, Ids]) -> Iterator[PartitionState]:
    """*alike* holds the sets of brokers met so far: thousands of partitions share a few."""
    if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return
    if topic.error_code:
        raise cluster_error(
            topic.error_code, f"describing topic {topic.name}", f"DESCRIBE on topic {topic.name}"
        )
    for one in topic.partitions:
        yield PartitionState(
            partition=TopicPartition(topic.name, one.partition_index),
            topic_id=topic.topic_id,
            leader=one.leader_id if one.leader_id >= 0 else None,
            leader_epoch=one.leader_epoch,
            assignment=_ids(one.replica_nodes, alike),
            isr=_ids(one.isr_nodes, alike),
            elr=_ids_or_unknown(one.eligible_leader_replicas, alike),
            last_known_elr=_ids_or_unknown(one.last_known_elr, alike),
            offline_replicas=_ids(one.offline_replicas, alike),
        )


def _ids_or_unknown(replicas: list[int] | None, alike: dict[Ids, Ids]) -> Ids | Unknown:
    return NO_ELR if replicas is None else _ids(replicas, alike)


def _ids(replicas: list[int], alike: dict[Ids, Ids]) -> Ids:
    ids = tuple(replicas)
    return alike.setdefault(ids, ids)


def _from_metadata(
    sender: Sender, deadline: Deadline, topics: Sequence[str]
) -> Iterator[PartitionState]:
    """Before Kafka 3.8: the same from Metadata, without ELR."""
    from kafka.protocol.metadata import MetadataRequest, MetadataResponse

    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=wanted or None, allow_auto_topic_creation=False)
    answer = sender.call(ANY_BROKER, request, MetadataResponse, deadline)
    for topic in answer.topics:
        if topic.error_code:
            continue
        for one in topic.partitions:
            yield PartitionState(
                partition=TopicPartition(topic.name, one.partition_index),
                topic_id=topic.topic_id,
                leader=one.leader_id if one.leader_id >= 0 else None,
                leader_epoch=one.leader_epoch,
                assignment=tuple(one.replica_nodes),
                isr=tuple(one.isr_nodes),
                elr=NO_ELR_API,
                last_known_elr=NO_ELR_API,
                offline_replicas=tuple(one.offline_replicas),
            )
