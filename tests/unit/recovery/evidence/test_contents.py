"""Which replicas are read before they are proposed, and how far; what keeps them unread."""

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest

from breakglass.services import patience
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.limits import Allowance, ReadingLimits
from breakglass.services.kafka.replicas.list_offsets import PAST_EVERY_LOG
from breakglass.services.kafka.wire.answers import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    UNKNOWN_SERVER_ERROR,
)
from breakglass.services.model import (
    Denied,
    LogContents,
    PartitionEvidence,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.evidence.contents import ContentsReading, carried
from breakglass.services.recovery.triage import Triage, recommended, triage
from breakglass.services.session import Effort
from tests.kit.deadlines import HOUR, MOMENT
from tests.kit.fake_cluster import FakeCluster
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.recovery.replicas import ANOTHER_TOPIC_ID, log, offline

ORDERS, LEDGER = TopicPartition("orders", 0), TopicPartition("ledger", 0)
READ_DENIED, STORAGE_ERROR, OUT_OF_RANGE = 29, 56, 1


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """b2 holds 120 of `orders-0`, corrupt at 40; b3 100, whole; both all of `ledger-0`."""
    with FakeCluster(3) as cluster:
        for partition in (ORDERS, LEDGER):
            cluster.story.offline(partition, (1, 2, 3))
        cluster.hold(2, ORDERS, (0, 120)).corrupt_at = 40
        cluster.hold(3, ORDERS, (0, 100))
        cluster.hold(2, LEDGER, (0, 30), (1, 20))
        cluster.hold(3, LEDGER, (0, 30))
        cluster.story.fenced = {1}
        cluster.brokers[1].stop()
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[ReadClient]:
    with closing(cluster.client(2)) as client:
        yield client


def judged(client: ReadClient, contents: Effort = Effort.FULL) -> Triage:
    *_, found = triage(client, HOUR, gone=[1], contents=contents)
    return found


def of(found: Triage, partition: TopicPartition, broker: int) -> LogContents | Unknown:
    assessment = found.assessment(partition)
    assert assessment is not None
    replica = assessment.evidence.replica(broker)
    assert replica is not None
    return replica.contents


def fetched(cluster: FakeCluster, broker: int) -> list[tuple[str, int]]:
    """The topics and offsets that records of *broker* were asked for."""
    return [
        (topic.topic, partition.fetch_offset)
        for request in cluster.brokers[broker].requests(FetchRequest)
        for topic in request.topics
        for partition in topic.partitions
        if partition.fetch_offset != PAST_EVERY_LOG
    ]


def refuse(cluster: FakeCluster, broker: int, code: int) -> None:
    """Let *broker* answer everybody who asks for records with *code*, and epochs as before."""
    answer = cluster.apis(broker)[FetchRequest]

    def refused(request: Any) -> Any:
        told = answer(request)
        if _asks_for_records(request):
            for topic in told.responses:
                for partition in topic.partitions:
                    partition.error_code, partition.records = code, b""
        return told

    cluster.brokers[broker].serve(FetchRequest, refused)


def test_where_the_winner_is_corrupt_the_next_one_is_read_and_proposed(
    cluster: FakeCluster, client: ReadClient
) -> None:
    found = judged(client)
    assessment = found.assessment(ORDERS)
    assert assessment is not None
    assert assessment.designee == 3
    corrupt = of(found, ORDERS, 2)
    assert isinstance(corrupt, LogContents)
    assert corrupt.corrupt_at == 40
    assert of(found, ORDERS, 3) == LogContents(0, 100, bytes_read=161)


def test_without_read_on_the_topic_contents_are_unknown_and_nothing_fails(
    cluster: FakeCluster, client: ReadClient
) -> None:
    refuse(cluster, 2, READ_DENIED)
    told = of(judged(client), LEDGER, 2)
    assert isinstance(told, Denied)
    assert told.needs == "READ on topic ledger"


@pytest.mark.parametrize("code", [STORAGE_ERROR, OUT_OF_RANGE])
def test_what_keeps_a_broker_from_answering_is_no_damage(
    cluster: FakeCluster, client: ReadClient, code: int
) -> None:
    refuse(cluster, 2, code)
    assert isinstance(of(judged(client), LEDGER, 2), Unknown)


@pytest.mark.parametrize("code", [CORRUPT_MESSAGE, INVALID_RECORD, UNKNOWN_SERVER_ERROR])
def test_a_broker_that_cannot_serve_an_offset_although_its_log_goes_on_is_corrupt_there(
    cluster: FakeCluster, client: ReadClient, code: int
) -> None:
    """Which of them a broker gives depends on the damaged bytes: tests/lab/brokers."""
    refuse(cluster, 2, code)
    told = of(judged(client), LEDGER, 2)
    assert isinstance(told, LogContents)
    assert (told.corrupt_at, told.verified_to) == (0, 0)


def test_an_answer_without_records_is_asked_for_again_alone_before_it_counts(
    cluster: FakeCluster, client: ReadClient
) -> None:
    answer = cluster.apis(2)[FetchRequest]
    together = []

    def first_alone(request: Any) -> Any:
        told = answer(request)
        asked = [partition for topic in request.topics for partition in topic.partitions]
        if asked[0].fetch_offset != PAST_EVERY_LOG and len(asked) > 1:
            together.append(len(asked))
            told.responses[-1].partitions[-1].records = b""
        return told

    cluster.brokers[2].serve(FetchRequest, first_alone)
    found = judged(client)
    assert together
    assert isinstance(of(found, LEDGER, 2), LogContents)
    assert of(found, ORDERS, 2).corrupt_at == 40  # type: ignore[union-attr]


def test_a_compacted_log_that_sends_nothing_is_unread_and_not_corrupt(
    cluster: FakeCluster, client: ReadClient
) -> None:
    found = judged(client, Effort.OFF)
    evidence = [
        replace(partition, settings=replace(partition.settings, compacted=True))
        for partition in map(_unread, found.evidence.partitions)
    ]
    refuse(cluster, 2, 0)
    (ledger,) = [one for one in evidence if one.partition == LEDGER]
    (read,) = ContentsReading(client, Effort.FULL).read([ledger])
    told = _contents(read, 2)
    assert isinstance(told, Unknown)
    assert "sends no records from offset 0 on" in told.reason


def test_a_log_that_was_cut_while_it_was_read_is_not_called_corrupt(
    cluster: FakeCluster, client: ReadClient
) -> None:
    answer = cluster.apis(2)[FetchRequest]

    def cut(request: Any) -> Any:
        told = answer(request)
        if _asks_for_records(request):
            cluster.replicas[2, ORDERS].log.truncate(30)
        return told

    cluster.brokers[2].serve(FetchRequest, cut)
    told = of(judged(client), ORDERS, 2)
    assert isinstance(told, Unknown)
    assert "changed while it was read" in told.reason


def test_a_throttled_user_reads_no_contents_and_is_told_so(
    cluster: FakeCluster, client: ReadClient
) -> None:
    answer = cluster.apis(2)[FetchRequest]

    def throttled(request: Any) -> Any:
        if _asks_for_records(request):
            return FetchResponse(throttle_time_ms=100, responses=[])
        return answer(request)

    cluster.brokers[2].serve(FetchRequest, throttled)
    told = of(judged(client), LEDGER, 2)
    assert isinstance(told, Unknown)
    assert "b2 throttles this user" in told.reason


def test_time_and_bytes_are_shared_by_all_brokers(cluster: FakeCluster, client: ReadClient) -> None:
    found = judged(client, Effort.OFF)
    unread = [_unread(partition) for partition in found.evidence.partitions]
    for limits in (ReadingLimits(0.0, 2**30, 2**30), ReadingLimits(HOUR, 0, 2**30)):
        before = len(fetched(cluster, 2))
        evidence = ContentsReading(client, Effort.BUDGET, allowance=Allowance(limits)).read(unread)
        assert all(isinstance(_contents(one, 2), Unknown) for one in evidence)
        assert len(fetched(cluster, 2)) == before


def test_while_others_are_awaited_nothing_is_elected_before_its_contents_are_read(
    cluster: FakeCluster, client: ReadClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """b3 holds `ledger` no more and hangs; what b2 holds alone is complete at once."""
    slow, heard = threading.Event(), cluster.apis(3)[ListOffsetsRequest]

    def late(request: Any) -> Any:
        assert slow.wait(DEADLINE_SECONDS)
        return heard(request)

    cluster.story.offline(LEDGER, (1, 2))
    cluster.brokers[3].serve(ListOffsetsRequest, late)
    monkeypatch.setattr(patience, "SETTLE", MOMENT)
    told = triage(client, HOUR, gone=[1], contents=Effort.FULL)
    first = next(one for one in told if one.evidence.silent.keys() == {1, 3})
    assert first.contents_due == {LEDGER}
    assert [target.partition for target in recommended(first).targets] == []
    second = next(told)
    slow.set()
    assert not second.contents_due
    assert [target.partition for target in recommended(second).targets] == [LEDGER]
    assert isinstance(of(second, LEDGER, 2), LogContents)
    *_, final = told
    assert isinstance(of(final, ORDERS, 3), LogContents)


def test_contents_are_kept_for_the_same_log_and_no_other() -> None:
    known = offline(replace(log(2, (0, 120)), contents=LogContents(0, 40, 40)))
    same = offline(log(2, (0, 120)))
    assert _contents(carried(known, same), 2) == LogContents(0, 40, 40)
    for other in (log(2, (0, 119)), log(2, (0, 60), (1, 120))):
        assert isinstance(_contents(carried(known, offline(other)), 2), Unknown)
    again = offline(log(2, (0, 120)), topic_id=ANOTHER_TOPIC_ID)
    assert isinstance(_contents(carried(known, again), 2), Unknown)


def test_damage_that_a_shorter_reading_did_not_reach_is_not_forgotten() -> None:
    known = offline(replace(log(2, (0, 120)), contents=LogContents(0, 40, 40)))
    shorter = offline(replace(log(2, (0, 120)), contents=LogContents(80, 120, stopped="budget")))
    assert _contents(carried(known, shorter), 2) == LogContents(0, 40, 40)
    mended = offline(replace(log(2, (0, 120)), contents=LogContents(0, 120)))
    assert _contents(carried(known, mended), 2) == LogContents(0, 120)


def _asks_for_records(request: Any) -> bool:
    asked = [partition for topic in request.topics for partition in topic.partitions]
    return any(one.fetch_offset != PAST_EVERY_LOG for one in asked)


def _contents(evidence: PartitionEvidence, broker: int) -> LogContents | Unknown:
    replica = evidence.replica(broker)
    assert replica is not None
    return replica.contents


def _unread(evidence: PartitionEvidence) -> PartitionEvidence:
    unread = Unknown("not read")
    return replace(
        evidence, replicas=tuple(replace(replica, contents=unread) for replica in evidence.replicas)
    )
