"""Reading one broker's replicas: figures, partial answers, refusals; each asked again as needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from breakglass.services.errors import Unreachable
from breakglass.services.kafka.replicas.list_offsets import (
    DEBUGGING_REPLICA,
    LATEST,
    LEADER_ONLY,
    MAX_TIMESTAMP,
    ListedOffset,
    OffsetError,
    list_offsets,
)
from breakglass.services.kafka.replicas.replica_reader import ReplicaReader, ReplicaReading
from breakglass.services.kafka.wire.broker_errors import denied
from breakglass.services.kafka.wire.deadline import Deadline
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
from tests.kit.fake_cluster import NEWEST_MS, FakeCluster, partitions_of, without
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
    def test_a_replica_is_read_whole(self, cluster: FakeCluster, sender: Sender) -> None:
        cluster.story.offline(ORDERS, leader_epoch=9)
        cluster.hold(1, ORDERS, (0, 100), (2, 25)).high_watermark = 110
        reading = read(sender, ORDERS)[ORDERS]
        assert (reading.log_start, reading.high_watermark, reading.log_end) == (0, 110, 125)
        assert reading.leader_epoch == 9
        assert reading.epochs == EpochHistory((EpochRange(0, 0, 100), EpochRange(2, 100, 125)), 0)
        assert (reading.newest_ms, reading.log_dir_online) == (NEWEST_MS, True)
        assert reading.source is FigureSource.STOCK

    def test_a_log_without_records_is_known_to_be_empty(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
        cluster.story.offline(ORDERS)
        cluster.hold(1, ORDERS)
        reading = read(sender, ORDERS)[ORDERS]
        assert (reading.log_start, reading.high_watermark, reading.log_end) == (0, 0, 0)
        assert reading.epochs == EpochHistory((), 0)
        assert reading.newest_ms is None
        assert questions(cluster) == []

    @pytest.mark.parametrize("emptied", ["by retention", "as a new follower"])
    def test_a_log_that_begins_late_is_known_to_be_empty(
        self, cluster: FakeCluster, sender: Sender, emptied: str
    ) -> None:
        """A new follower's cache knows no epoch: the log's start has to be asked for beside it."""
        cluster.story.offline(ORDERS)
        if emptied == "by retention":
            cluster.hold(1, ORDERS, (0, 100)).log.delete_below(100)
        else:
            cluster.hold(1, ORDERS).log.start_over(100)
        reading = read(sender, ORDERS)[ORDERS]
        assert (reading.log_start, reading.high_watermark, reading.log_end) == (100, 100, 100)
        assert reading.epochs == EpochHistory((), 100)
        assert reading.newest_ms is None

    def test_records_whose_epochs_nobody_knows_are_no_empty_log(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
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

    def test_many_replicas_of_one_epoch_cost_three_requests(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
        events = partitions_of("events", 500)
        hold(cluster, events)
        assert len(read(sender, *events)) == 500
        assert len(cluster.brokers[1].received) == 3
        assert questions(cluster) == [500]

    def test_epochs_are_asked_for_a_thousand_partitions_at_a_time(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
        events = partitions_of("events", 1_200)
        hold(cluster, events)
        found = read(sender, *events)
        assert {known(reading.epochs) for reading in found.values()} == {True}
        assert questions(cluster) == [1_000, 200]

    def test_a_short_walk_is_taken_further_without_asking_anew(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
        cluster.story.offline(ORDERS)
        cluster.hold(1, ORDERS, *((epoch, 2) for epoch in range(0, 80, 2)))
        reader = ReplicaReader(sender, 1)
        first = reader.read({ORDERS: TOPIC_ID}, ample())[ORDERS]
        assert known(first.epochs)
        assert len(first.epochs.ranges) == 8
        reader.deepen([ORDERS], 100, ample())
        history = reader.history(ORDERS)
        assert known(history)
        assert len(history.ranges) == 40
        assert len(questions(cluster)) == 40


class TestPartialAnswers:
    def test_partitions_left_out_of_log_ends_are_asked_again(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
        events = partitions_of("events", 5)
        hold(cluster, events)
        answer = cluster.apis(1)[ListOffsetsRequest]
        cluster.brokers[1].serve(ListOffsetsRequest, lambda request: two_at_most(answer(request)))
        found = read(sender, *events)
        assert [found[event].log_end for event in events] == [3] * 5
        latest = [
            [partition.partition_index for partition in request.topics[0].partitions]
            for request in cluster.brokers[1].requests(ListOffsetsRequest)
            if request.topics[0].partitions[0].timestamp == LATEST
        ]
        assert latest == [[0, 1, 2, 3, 4], [2, 3, 4], [4]]

    def test_partitions_left_out_of_epoch_answers_are_asked_again(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
        events = partitions_of("events", 5)
        hold(cluster, events)
        answer = cluster.apis(1)[FetchRequest]
        cluster.brokers[1].serve(FetchRequest, lambda request: two_at_most(answer(request)))
        found = read(sender, *events)
        assert {found[event].epochs for event in events} == {
            EpochHistory((EpochRange(0, 0, 3),), 0)
        }
        assert questions(cluster) == [5, 3, 1]

    def test_one_that_stays_out_is_unknown_and_hides_no_other(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
        told, untold = partitions_of("events", 2)
        hold(cluster, (told, untold))
        leave_out(cluster, ListOffsetsRequest, untold)
        leave_out(cluster, FetchRequest, untold)
        found = read(sender, told, untold)
        assert found[told].log_end == 3
        assert isinstance(found[untold].log_end, Unknown)

    def test_epochs_that_stay_out_are_unknown_beside_a_known_end(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
        told, untold = partitions_of("events", 2)
        hold(cluster, (told, untold))
        leave_out(cluster, FetchRequest, untold)
        found = read(sender, told, untold)
        assert known(found[told].epochs)
        assert found[untold].log_end == 3
        for figure in (found[untold].epochs, found[untold].high_watermark, found[untold].log_start):
            assert isinstance(figure, Unknown)

    def test_an_answer_about_something_else_is_passed_over(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
        asked, other = partitions_of("events", 2)
        hold(cluster, (asked, other))
        answer = cluster.apis(1)[FetchRequest]

        def both(request: Any) -> Any:
            unasked = FetchRequest.FetchTopic.FetchPartition(partition=1, last_fetched_epoch=0)
            request.topics[0].partitions.append(unasked)
            return answer(request)

        cluster.brokers[1].serve(FetchRequest, both)
        assert known(read(sender, asked)[asked].epochs)


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
    def test_a_replica_that_cannot_be_read_says_why(
        self, cluster: FakeCluster, sender: Sender, code: int, reason: str
    ) -> None:
        cluster.story.offline(ORDERS)
        cluster.hold(1, ORDERS, (0, 3)).error = code
        reading = read(sender, ORDERS)[ORDERS]
        assert isinstance(reading.log_end, Unknown)
        assert reason in reading.log_end.reason
        assert reading.epochs == reading.log_end
        assert reading.source is FigureSource.NONE

    def test_r21_an_offline_log_directory_is_known_from_the_replica_itself(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
        cluster.story.offline(ORDERS)
        cluster.hold(1, ORDERS).error = STORAGE_ERROR
        assert read(sender, ORDERS)[ORDERS].log_dir_online is False

    def test_a_broker_that_falls_silent_is_an_error_of_all(
        self, cluster: FakeCluster, sender: Sender
    ) -> None:
        hold(cluster, [ORDERS])
        cluster.brokers[1].serve(FetchRequest, lambda _: None)
        reader = ReplicaReader(sender, 1)
        with pytest.raises(Unreachable):
            reader.read({ORDERS: TOPIC_ID}, Deadline.after(0.3))


@pytest.mark.parametrize(
    ("leader", "epoch", "code"), [(1, 5, 0), (1, 4, 74), (1, 6, 75), (None, 5, 6)]
)
def test_r06_only_the_leader_of_that_epoch_answers(
    cluster: FakeCluster, sender: Sender, leader: int | None, epoch: int, code: int
) -> None:
    """What confirmation rests on: the fake answers as Partition.scala does."""
    cluster.story.states[ORDERS] = replace(cluster.story.offline(ORDERS), leader=leader)
    cluster.hold(1, ORDERS, (0, 3)).high_watermark = 2
    options: dict[str, Any] = {"replica_id": LEADER_ONLY, "leader_epochs": {ORDERS: epoch}}
    answer = list_offsets(sender, 1, [ORDERS], LATEST, ample(), **options)[ORDERS]
    if code:
        assert isinstance(answer, OffsetError)
        assert answer.code == code
    else:
        assert answer == ListedOffset(2, -1, 5)


def test_the_newest_batch_of_an_empty_log_is_told_apart_from_offset_zero(
    cluster: FakeCluster, sender: Sender
) -> None:
    cluster.story.offline(ORDERS)
    cluster.hold(1, ORDERS)
    found = list_offsets(sender, 1, [ORDERS], MAX_TIMESTAMP, ample(), replica_id=DEBUGGING_REPLICA)
    assert found == {ORDERS: ListedOffset(-1, -1, -1)}


def leave_out(cluster: FakeCluster, request_class: Any, partition: TopicPartition) -> None:
    """Let broker 1 leave *partition* out of its answers of one api."""
    answer = cluster.apis(1)[request_class]
    cluster.brokers[1].serve(request_class, lambda asked: without(answer(asked), [partition]))


def two_at_most(answer: Any) -> Any:
    """*answer* of ListOffsets or Fetch, with the first two partitions alone."""
    (topic,) = getattr(answer, "responses", None) or answer.topics
    topic.partitions = topic.partitions[:2]
    return answer
