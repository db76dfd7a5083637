"""A partition's batches are read once each and in order, whatever becomes of its leader and log."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest
from kafka.protocol.consumer import ListOffsetsResponse as Offsets

from breakglass.services import patience
from breakglass.services.errors import (
    LogBeginsLater,
    LogTruncated,
    TimedOut,
    TopicRecreated,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.pipeline.batches.converting import chunks_of
from breakglass.services.pipeline.batches.reader import BatchReader
from breakglass.services.pipeline.committed_log import READ_COMMITTED
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import TOPIC_ID
from tests.unit.pipeline.batches.fake_log import ORDERS, TEN, FakeLog, Partition, led_by

OUT_OF_RANGE, NOT_LEADER, NOT_ALLOWED, STORAGE_ERROR, UNKNOWN_TOPIC_ID = 1, 6, 29, 56, 100


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as made:
        made.story.states[ORDERS] = led_by(1)
        yield made


@pytest.fixture
def read(client: ReadClient) -> Callable[..., list[int]]:
    def offsets(
        start: int,
        end: int,
        chunk_bytes: int = TEN,
        topic_id: UUID = TOPIC_ID,
        seconds: float = patience.JOB,
    ) -> Any:
        """The offsets that come of reading ``[start, end)``."""
        reader = BatchReader(client, ORDERS, topic_id, 1, 4, chunk_bytes, seconds)
        return [
            int(offset)
            for fetched in reader.fetches(start, end)
            for chunk in chunks_of(fetched, start, end)
            for offset in chunk.offsets
        ]

    return offsets


Read = Callable[..., list[int]]


def test_each_request_begins_behind_the_last_whole_batch_and_names_its_epoch(
    log: FakeLog, read: Read
) -> None:
    assert read(0, 50, chunk_bytes=2 * TEN + 5) == list(range(50))
    assert [(at, epoch) for at, epoch, _ in log.asked] == [(0, -1), (20, 5), (40, 5)]


@pytest.mark.parametrize(("newest", "epoch"), [(13, 5), (12, 5), (11, -1), (4, -1)])
def test_a_topic_is_asked_for_by_its_id_and_of_older_brokers_by_name(
    cluster: FakeCluster, log: FakeLog, read: Read, newest: int, epoch: int
) -> None:
    cluster.brokers[1].serve(FetchRequest, log.answer, (4, newest))
    assert read(0, 30) == list(range(30))
    requests = [received for received in cluster.brokers[1].received if received.api_key == 1]
    assert {request.version for request in requests} == {newest}
    topic = requests[0].message.topics[0]
    assert (topic.topic_id if newest == 13 else topic.topic) in (TOPIC_ID, "orders")
    assert requests[0].message.isolation_level == READ_COMMITTED
    assert [one for _, one, _ in log.asked] == [-1, epoch, epoch]


def test_a_batch_larger_than_a_fetch_is_asked_for_with_its_size(log: FakeLog, read: Read) -> None:
    assert read(0, 20, chunk_bytes=TEN // 4) == list(range(20))
    assert max(size for _, _, size in log.asked) >= TEN


def test_another_leader_is_asked_from_where_the_first_one_ended(
    cluster: FakeCluster, log: FakeLog, read: Read
) -> None:
    def moved(request: Any) -> Any:
        if request.topics[0].partitions[0].fetch_offset >= 20:
            cluster.story.states[ORDERS] = led_by(2)
            log.first.append({"error_code": NOT_LEADER})
        return log.answer(request)

    cluster.brokers[1].serve(FetchRequest, moved)
    assert read(0, 50) == list(range(50))
    asked = [received.message for received in cluster.brokers[2].received if received.api_key == 1]
    assert [one.topics[0].partitions[0].fetch_offset for one in asked] == [20, 30, 40]


@pytest.mark.parametrize(
    "answer",
    [
        {"error_code": STORAGE_ERROR},
        {"error_code": NOT_LEADER},
        {"last_stable_offset": 0, "records": b""},
    ],
    ids=["storage", "leader", "stable end"],
)
def test_what_passes_is_waited_for(log: FakeLog, read: Read, answer: dict[str, Any]) -> None:
    log.first = [dict(answer), dict(answer)]
    assert read(0, 50) == list(range(50))


@pytest.mark.parametrize(
    "answer",
    [{"last_stable_offset": 3}, {"error_code": STORAGE_ERROR}, None],
    ids=["stable end", "storage", "left out"],
)
def test_what_does_not_pass_is_told_in_time(
    cluster: FakeCluster, log: FakeLog, read: Read, answer: dict[str, Any] | None
) -> None:
    def always(request: Any) -> Any:
        if answer is None:
            return FetchResponse(responses=[])
        log.first = [dict(answer)]
        return log.answer(request)

    cluster.brokers[1].serve(FetchRequest, always)
    with pytest.raises(TimedOut):
        read(3, 50, seconds=0.3)


@pytest.mark.parametrize(
    ("log_start", "error"), [(20, LogBeginsLater), (0, LogTruncated)], ids=["later", "shorter"]
)
def test_an_offset_out_of_range_is_told_by_where_the_log_begins(
    cluster: FakeCluster, log: FakeLog, read: Read, log_start: int, error: type[Exception]
) -> None:
    cluster.brokers[1].serve(ListOffsetsRequest, lambda _: starts_at(log_start))
    log.first = [{"error_code": OUT_OF_RANGE}]
    with pytest.raises(error):
        read(13, 50)


def starts_at(offset: int) -> Any:
    topic_class = Offsets.ListOffsetsTopicResponse
    partition = topic_class.ListOffsetsPartitionResponse(
        partition_index=3, error_code=0, offset=offset, timestamp=-1, leader_epoch=5
    )
    return Offsets(topics=[topic_class(name="orders", partitions=[partition])])


def test_a_log_that_was_cut_back_while_it_was_read_is_not_read_on(
    cluster: FakeCluster, log: FakeLog, read: Read
) -> None:
    def cut(request: Any) -> Any:
        if request.topics[0].partitions[0].last_fetched_epoch == 5:
            end = Partition.EpochEndOffset(epoch=4, end_offset=8)
            log.first.append({"diverging_epoch": end})
        return log.answer(request)

    cluster.brokers[1].serve(FetchRequest, cut)
    with pytest.raises(LogTruncated):
        read(0, 50)


@pytest.mark.parametrize("gone", [True, False], ids=["deleted", "created again"])
def test_a_topic_that_is_not_the_one_any_more_is_not_read(
    cluster: FakeCluster, log: FakeLog, read: Read, gone: bool
) -> None:
    def recreated(request: Any) -> Any:
        log.first.append({"error_code": UNKNOWN_TOPIC_ID})
        del cluster.story.states[ORDERS]
        if not gone:
            cluster.story.states[ORDERS] = replace(led_by(1), topic_id=UUID(int=5))
        return log.answer(request)

    cluster.brokers[1].serve(FetchRequest, recreated)
    with pytest.raises(TopicRecreated):
        read(0, 50)


def test_a_log_whose_rest_was_compacted_away_is_at_its_end(log: FakeLog, read: Read) -> None:
    assert read(0, 55) == list(range(50))
