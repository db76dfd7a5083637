"""What a reader of a command topic makes of what its client tells: passing, refused, or cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast
from uuid import UUID

import pytest
from confluent_kafka import KafkaError

from breakglass.services import patience
from breakglass.services.errors import (
    AuthenticationFailed,
    BreakglassError,
    ClusterError,
    LogBeginsLater,
    LogTruncated,
    NotAuthorized,
    NotNow,
    TimedOut,
    TopicRecreated,
    Unreachable,
)
from breakglass.services.kafka.read_client import ReadClient
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
from breakglass.services.model import Unknown
from breakglass.services.pipeline.batches.converting import FetchedBatches
from breakglass.services.pipeline.batches.reader import BatchReader
from tests.kit.clock import Clock
from tests.unit.topic_backup.batch_bytes import CONTROL, TRANSACTIONAL, batch, control_record
from tests.unit.topic_backup.older_bytes import message_set
from tests.unit.topic_backup.shapes import run


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reader(clock: Clock) -> Iterator[TopicReader]:
    with TopicReader({"bootstrap.servers": "127.0.0.1:1"}, "t", clock=clock) as found:
        yield found


def test_a_broker_that_goes_away_long_after_the_last_command_ends_nothing(
    reader: TopicReader, clock: Clock
) -> None:
    """The topic may have been quiet for days: only the time since the first failure counts."""
    gone = KafkaError(KafkaError._TRANSPORT)
    for seconds in (1e6, patience.CONSUMER):
        clock.advance(seconds)
        reader._failed(gone)
    clock.advance(0.1)
    with pytest.raises(Unreachable):
        reader._failed(gone)


@pytest.mark.parametrize(
    ("code", "raised", "passes"),
    [
        (KafkaError.NOT_LEADER_FOR_PARTITION, NotNow, True),
        (KafkaError.LEADER_NOT_AVAILABLE, NotNow, True),
        (KafkaError._UNKNOWN_PARTITION, NotNow, True),
        (KafkaError._AUTO_OFFSET_RESET, LogCut, True),
        (KafkaError._AUTHENTICATION, AuthenticationFailed, False),
        (KafkaError.SASL_AUTHENTICATION_FAILED, AuthenticationFailed, False),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, NotAuthorized, False),
        (KafkaError.INVALID_MSG, ClusterError, False),
    ],
)
def test_what_passes_is_told_from_what_only_the_operator_can_end(
    reader: TopicReader, code: int, raised: type[ClusterError], passes: bool
) -> None:
    with pytest.raises(raised) as found:
        reader._failed(KafkaError(code))
    assert type(found.value) is raised
    assert found.value.passes is passes


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


def test_a_short_log_or_one_without_numpy_is_left_to_the_consumer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "WORTHWHILE", module.WORTHWHILE + 1)
        assert list(read(patch, fetched(batch(run(0, 3))))) == []
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "numpy" else name)
    assert list(read(monkeypatch, fetched(batch(run(0, 3))))) == []
