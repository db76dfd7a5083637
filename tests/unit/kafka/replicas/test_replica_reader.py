"""Reading one broker's replicas: figures, partial answers, refusals; each asked again as needed."""

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from breakglass.services.errors import MalformedMessage
from breakglass.services.kafka.replicas.list_offsets import LATEST
from breakglass.services.kafka.replicas.replica_reader import ReplicaReader, ReplicaReading
from breakglass.services.kafka.wire.answers import denied
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import (
    EpochHistory,
    EpochRange,
    FigureSource,
    TopicPartition,
    Unknown,
    known,
)
from tests.kit.deadlines import ample
from tests.kit.fake_cluster import FakeCluster, partitions_of, without
from tests.kit.fake_metadata import TOPIC_ID

READ_DENIED, STORAGE_ERROR, NOT_AVAILABLE, OFFSET_NOT_AVAILABLE = 29, 56, 9, 78
ORDERS = TopicPartition("orders", 0)


def read(sender: Sender, *partitions: TopicPartition) -> dict[TopicPartition, ReplicaReading]:
    reader = ReplicaReader(sender, 1)
    return reader.read(dict.fromkeys(partitions, TOPIC_ID), ample())


def hold(cluster: FakeCluster, partitions: Iterable[TopicPartition]) -> None:
    """Let broker 1 hold three records of each."""
    for partition in partitions:
        cluster.story.offline(partition)
        cluster.hold(1, partition, (0, 3))


def questions(cluster: FakeCluster) -> list[int]:
    """How many partitions each Fetch asked for."""
    requests = cluster.brokers[1].requests(FetchRequest)
    return [sum(len(topic.partitions) for topic in request.topics) for request in requests]


class TestFigures:
    @pytest.mark.parametrize("emptied", ["never written", "by retention", "as a new follower"])
    def test_a_log_without_records_is_known_to_be_empty(
        self, cluster: FakeCluster, sender: Sender, emptied: str
    ) -> None:
        """A new follower's cache knows no epoch: the log's start has to be asked for beside it."""
        cluster.story.offline(ORDERS)
        start = 0 if emptied == "never written" else 100
        if emptied == "by retention":
            cluster.hold(1, ORDERS, (0, 100)).log.delete_below(100)
        else:
            cluster.hold(1, ORDERS).log.start_over(start)
        reading = read(sender, ORDERS)[ORDERS]
        assert (reading.log_start, reading.high_watermark, reading.log_end) == (start,) * 3
        assert (reading.epochs, reading.newest_ms) == (EpochHistory((), start), None)
        assert start or questions(cluster) == []

    def test_without_epochs_a_log_is_not_empty(self, cluster: FakeCluster, sender: Sender) -> None:
        """Taken for one, the replica would rank last, and lose what it alone holds."""
        cluster.story.offline(ORDERS)
        held = cluster.hold(1, ORDERS, (0, 100))
        held.log.cache.clear()
        reading = read(sender, ORDERS)[ORDERS]
        assert reading.log_end == 100
        assert isinstance(reading.epochs, Unknown)

    @pytest.mark.parametrize("start", [0, 40])
    def test_r09_a_high_watermark_lost_in_an_unclean_stop_is_unknown(
        self, cluster: FakeCluster, sender: Sender, start: int
    ) -> None:
        """Without its checkpoint a broker begins at 0, raised to the log's start."""
        cluster.story.offline(ORDERS)
        held = cluster.hold(1, ORDERS, (0, 100))
        held.log.delete_below(start)
        held.high_watermark = 0
        reading = read(sender, ORDERS)[ORDERS]
        assert isinstance(reading.high_watermark, Unknown)
        assert reading.log_start == start


class TestPartialAnswers:
    def test_what_is_left_out_is_asked_again(self, cluster: FakeCluster, sender: Sender) -> None:
        events = partitions_of("events", 5)
        hold(cluster, events)
        for api in (ListOffsetsRequest, FetchRequest):
            leave_out_of(cluster, api, two_at_most)
        found = read(sender, *events)
        assert [found[event].log_end for event in events] == [3] * 5
        assert {found[event].epochs for event in events} == {
            EpochHistory((EpochRange(0, 0, 3),), 0)
        }
        latest = [
            [partition.partition_index for partition in request.topics[0].partitions]
            for request in cluster.brokers[1].requests(ListOffsetsRequest)
            if request.topics[0].partitions[0].timestamp == LATEST
        ]
        assert latest == [[0, 1, 2, 3, 4], [2, 3, 4], [4]]
        assert questions(cluster) == [5, 3, 1]

    @pytest.mark.parametrize("ends", [False, True], ids=["its end is known", "its end is not"])
    def test_one_that_stays_out_is_unknown_and_hides_no_other(
        self, cluster: FakeCluster, sender: Sender, ends: bool
    ) -> None:
        told, untold = partitions_of("events", 2)
        hold(cluster, (told, untold))
        for request in (FetchRequest, ListOffsetsRequest) if ends else (FetchRequest,):
            leave_out_of(cluster, request, lambda answer: without(answer, [untold]))
        found = read(sender, told, untold)
        assert (found[told].log_end, known(found[told].epochs)) == (3, True)
        left = found[untold]
        assert known(left.log_end) is not ends
        assert not any(map(known, (left.epochs, left.high_watermark, left.log_start)))


class TestRefusals:
    def test_r22_without_read_the_ends_are_known_and_the_epochs_name_what_is_missing(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
        hold(cluster, [ORDERS])
        answer = cluster.apis(1)[FetchRequest]

        def refused(request: Any) -> Any:
            cluster.replicas[1, ORDERS].error = READ_DENIED
            reply = answer(request)
            cluster.replicas[1, ORDERS].error = 0
            return reply

        cluster.brokers[1].serve(FetchRequest, refused)
        reading = read(sender, ORDERS)[ORDERS]
        assert reading.log_end == 3
        assert reading.epochs == denied("READ on topic orders")
        assert reading.high_watermark == reading.log_start == reading.epochs

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            (READ_DENIED, "needs DESCRIBE on topic orders"),
            (STORAGE_ERROR, "log directory offline on b1"),
            (NOT_AVAILABLE, "REPLICA_NOT_AVAILABLE"),
            (OFFSET_NOT_AVAILABLE, "high watermark"),
        ],
    )
    def test_r21_a_replica_that_cannot_be_read_says_why(
        self, cluster: FakeCluster, sender: Sender, code: int, reason: str
    ) -> None:
        cluster.story.offline(ORDERS)
        cluster.hold(1, ORDERS, (0, 3)).error = code
        reading = read(sender, ORDERS)[ORDERS]
        assert isinstance(reading.log_end, Unknown)
        assert reason in reading.log_end.reason
        assert reading.epochs == reading.log_end
        assert reading.source is FigureSource.NONE
        assert (reading.log_dir_online is False) is (code == STORAGE_ERROR)


def leave_out_of(cluster: FakeCluster, api: Any, leaving: Callable[[Any], Any]) -> None:
    """Let broker 1 answer one api with what *leaving* makes of the answer."""
    answer = cluster.apis(1)[api]
    cluster.brokers[1].serve(api, lambda asked: leaving(answer(asked)))


def two_at_most(answer: Any) -> Any:
    """*answer* of ListOffsets or Fetch, with the first two partitions alone."""
    (topic,) = getattr(answer, "responses", None) or answer.topics
    topic.partitions = topic.partitions[:2]
    return answer


def tampered(cluster: FakeCluster, api: Any, change: Callable[[Any], object]) -> None:
    """Let broker 1 *change* the topic of each answer to *api*."""
    answer = cluster.apis(1)[api]

    def respond(request: Any) -> Any:
        told = answer(request)
        change(told.responses[0] if api is FetchRequest else told.topics[0])
        return told

    cluster.brokers[1].serve(api, respond)


def set_in_all(**values: Any) -> Callable[[Any], None]:
    def change(topic: Any) -> None:
        for one in topic.partitions:
            for item in values.items():
                setattr(one, *item)

    return change


class TestImpossibleAnswers:
    @pytest.mark.parametrize("end", [-100, -1, 2**62, 2**63 - 1])
    def test_s22_an_end_that_no_log_has_is_unknown(
        self, cluster: FakeCluster, sender: Sender, end: int
    ) -> None:
        hold(cluster, [ORDERS])
        tampered(cluster, ListOffsetsRequest, set_in_all(offset=end))
        reading = read(sender, ORDERS)[ORDERS]
        assert isinstance(reading.log_end, Unknown)
        assert "b1" in reading.log_end.reason

    @pytest.mark.parametrize(
        "values",
        [{"high_watermark": 2**63 - 1}, {"log_start_offset": -100}, {"log_start_offset": 4}],
        ids=str,
    )
    def test_s22_a_log_that_cannot_be_is_no_evidence(
        self, cluster: FakeCluster, sender: Sender, values: dict[str, int]
    ) -> None:
        hold(cluster, [ORDERS])
        tampered(cluster, FetchRequest, set_in_all(**values))
        reading = read(sender, ORDERS)[ORDERS]
        assert isinstance(reading.epochs, Unknown)
        assert "b1" in reading.epochs.reason

    def test_s22_an_epoch_above_the_one_asked_for_is_unknown(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
        hold(cluster, [ORDERS])

        def raised(topic: Any) -> None:
            topic.partitions[0].diverging_epoch.epoch = 2**31 - 1

        tampered(cluster, FetchRequest, raised)
        assert isinstance(read(sender, ORDERS)[ORDERS].epochs, Unknown)

    @pytest.mark.parametrize("api", [ListOffsetsRequest, FetchRequest])
    @pytest.mark.parametrize("number", [0, -7, 9])
    def test_s22_a_partition_twice_or_unasked_is_the_brokers_fault(
        self, cluster: FakeCluster, sender: Sender, api: Any, number: int
    ) -> None:
        hold(cluster, [ORDERS])

        def added(topic: Any) -> None:
            one = copy(topic.partitions[0])
            one.partition_index = number
            topic.partitions.append(one)

        tampered(cluster, api, added)
        with pytest.raises(MalformedMessage, match="b1 "):
            read(sender, ORDERS)
