"""What a reader of a command topic makes of what its client tells: passing, refused, or cut."""

import random
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse

from breakglass.services import patience
from breakglass.services.errors import (
    BreakglassError,
    ClusterError,
    LogBeginsLater,
    LogTruncated,
    MalformedMessage,
    NotAuthorized,
    TimedOut,
    TopicRecreated,
    Unreachable,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.passing import Head, answer_frame
from breakglass.services.metastore import topic as module
from breakglass.services.metastore.topic import (
    LogCut,
    PolledCommands,
    StableLog,
    TopicReader,
    TopicState,
    stable_log,
    whole_fetches,
)
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.pipeline.batches.reader import BatchReader, FetchedBatches
from tests.kit.clock import Clock
from tests.kit.deadlines import be_patient
from tests.kit.fake_broker import Body
from tests.kit.fake_cluster import FakeCluster
from tests.unit.topic_backup.batch_bytes import CONTROL, TRANSACTIONAL, batch, control_record
from tests.unit.topic_backup.older_bytes import message_set
from tests.unit.topic_backup.shapes import run

TOPIC = "t"
ORDERS = TopicPartition(TOPIC, 0)
NOT_LEADER, DENIED = 6, 29


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """A broker that leads the topic."""
    with FakeCluster(1) as cluster:
        cluster.story.offline(ORDERS, (1,))
        cluster.story.states[ORDERS] = replace(cluster.story.states[ORDERS], leader=1, isr=(1,))
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[ReadClient]:
    with closing(cluster.client()) as client:
        yield client


def serve(cluster: FakeCluster, data: bytes = b"", *, error: int = 0, **values: Any) -> None:
    """Let the leader answer each Fetch like that, with a log that ends at offset 3."""
    topic = FetchResponse.FetchableTopicResponse
    told = topic.PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=3,
        last_stable_offset=3,
        log_start_offset=0,
        records=data,
        **values,
    )
    answer = FetchResponse(responses=[topic(topic=TOPIC, partitions=[told])])
    cluster.brokers[1].serve(FetchRequest, lambda _: answer)


def test_s24_the_crc_of_each_batch_is_checked(cluster: FakeCluster, client: ReadClient) -> None:
    whole = batch(run(0, 3))
    serve(cluster, whole)
    assert len(TopicReader(client, TOPIC, 0).poll(0.0).records) == 3
    changed = bytearray(whole)
    changed[-3] ^= 1
    serve(cluster, bytes(changed))
    reader = TopicReader(client, TOPIC, 0)
    with pytest.raises(MalformedMessage, match="CRC"):
        reader.poll(0.0)
    assert reader.position() == 0


def test_s25_damaged_answers_end_in_a_sentence(
    cluster: FakeCluster, client: ReadClient, clock: Clock
) -> None:
    """Such bytes made librdkafka's client end the whole process."""
    serve(cluster, batch(run(0, 3)))
    TopicReader(client, TOPIC, 0, clock).poll(0.0)
    # The body of the leader's answer to a Fetch.
    api = cluster.brokers[1]._apis[FetchRequest.API_KEY]
    whole = answer_frame(Head(FetchRequest.API_KEY, 12, 0, None, 0), api.respond(None))[4:]
    choose = random.Random(37)
    for _ in range(100):
        bytes_now = bytearray(whole)
        for _ in range(choose.choice((1, 2, 9))):
            bytes_now[choose.randrange(len(whole))] = choose.randrange(256)
        cut = choose.choice((len(whole), choose.randrange(len(whole))))
        cluster.brokers[1].serve(FetchRequest, partial(answered, Body(bytes(bytes_now[:cut]))))
        reader = TopicReader(client, TOPIC, 0, clock)
        with suppress(BreakglassError):
            assert reader.poll(0.0).next_offset in (0, 3)


def answered(answer: Any, _: Any) -> Any:
    return answer


def test_commands_of_one_answer_that_are_bombs_are_taken_one_batch_after_the_other(
    cluster: FakeCluster, client: ReadClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DECODED_BYTES", 1)
    serve(cluster, batch(run(0, 1)) + batch(run(1, 2)) + batch(run(2, 3)))
    reader = TopicReader(client, TOPIC, 0)
    polled = [reader.poll(0.0) for _ in range(3)]
    assert [(len(one.records), one.next_offset, one.at_end) for one in polled] == [
        (1, 1, False),
        (1, 2, False),
        (1, 3, True),
    ]


def test_a_broker_that_goes_away_long_after_the_last_command_ends_nothing(
    cluster: FakeCluster, client: ReadClient, clock: Clock
) -> None:
    """The topic may have been quiet for days: only the time since the first failure counts."""
    serve(cluster, error=NOT_LEADER)
    reader = TopicReader(client, TOPIC, 0, clock)
    for seconds in (1e6, patience.CONSUMER):
        clock.advance(seconds)
        assert reader.poll(0.0).records == ()
    clock.advance(0.1)
    with pytest.raises(Unreachable):
        reader.poll(0.0)


@pytest.mark.parametrize(
    ("answer", "raised"),
    [
        ({"error": 1}, LogCut),
        ({"diverging_epoch": {"epoch": 1, "end_offset": 2}}, LogCut),
        ({"error": DENIED}, NotAuthorized),
        ({"error": 87}, ClusterError),
    ],
)
def test_what_passes_is_told_from_what_only_the_operator_can_end(
    cluster: FakeCluster, client: ReadClient, answer: dict[str, Any], raised: type[ClusterError]
) -> None:
    if "diverging_epoch" in answer:
        epoch_end = FetchResponse.FetchableTopicResponse.PartitionData.EpochEndOffset
        answer = {"diverging_epoch": epoch_end(**answer["diverging_epoch"])}
    serve(cluster, **answer)
    with pytest.raises(raised) as found:
        TopicReader(client, TOPIC, 0).poll(0.0)
    assert type(found.value) is raised


COMMIT = 1
MARKS = {"flags": TRANSACTIONAL | CONTROL, "producer": (7, 0, 0)}
LOG = StableLog("t", str(UUID(int=1)), 1, 3, 0, module.WORTHWHILE)


def fetched(data: bytes) -> FetchedBatches:
    return FetchedBatches(0, data, (), "b1, t-0")


def read(
    monkeypatch: pytest.MonkeyPatch, *answers: FetchedBatches | BreakglassError
) -> Iterator[PolledCommands]:
    """What is read where a leader answers like that."""

    def fetches(*_: object) -> Iterator[FetchedBatches]:
        for answer in answers:
            if isinstance(answer, BreakglassError):
                raise answer
            yield answer

    monkeypatch.setattr(BatchReader, "fetches", fetches)
    return whole_fetches(cast("ReadClient", None), LOG)


def test_after_a_fetch_its_markers_were_passed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    marked = batch(run(0, 3)) + batch([control_record(3, COMMIT)], **cast("Any", MARKS))
    only_marks = batch([control_record(4, COMMIT)], **cast("Any", MARKS))
    first, second = read(monkeypatch, fetched(marked), fetched(only_marks))
    assert [record.offset for record in first.records] == [0, 1, 2]
    assert (first.next_offset, first.leader_epoch) == (4, 5)
    assert (len(second.records), second.next_offset) == (0, 5)


@pytest.mark.parametrize("error", [LogTruncated, TopicRecreated])
def test_a_log_that_is_another_one_is_not_read_on(
    error: type[BreakglassError], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = read(monkeypatch, fetched(batch(run(0, 3))), error("gone"))
    assert next(batches).next_offset == 3
    with pytest.raises(LogCut, match="gone"):
        next(batches)


@pytest.mark.parametrize(
    "answer",
    [
        TimedOut("no answer"),
        LogBeginsLater("deleted"),
        fetched(message_set(run(3, 5), 1)),
        fetched(batch(run(3, 5))[:-1] + b"\xff"),
    ],
    ids=["no answer", "log begins later", "an older format", "damaged"],
)
def test_the_consumer_reads_on_where_whole_fetches_end(
    answer: FetchedBatches | BreakglassError, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = read(monkeypatch, fetched(batch(run(0, 3))), answer)
    assert [commands.next_offset for commands in batches] == [3]


@pytest.mark.parametrize(
    "state",
    [
        TopicState("id", None, 1, {}, 0, 20, 3, 3),
        TopicState("id", 1, 1, {}, Unknown("no answer"), 20, 3, 3),
        TopicState("id", 1, 1, {}, 0, Unknown("no answer"), 3, 3),
    ],
)
def test_a_log_whose_bounds_nobody_tells_is_left_to_the_consumer(state: TopicState) -> None:
    assert stable_log("t", state) is None
