"""Fetch answers, the ranges that tasks read, and what comes of them."""

import pickle
import struct
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchResponse

from breakglass.services.connection.sasl import PasswordLogin, SaslSettings
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.errors import (
    MalformedMessage,
    NotAuthorized,
    PipelineError,
    StorageError,
    TimedOut,
    WrongCluster,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.batches.reader import FetchAnswer
from breakglass.services.pipeline.batches.tasks import (
    OFFSETS_A_TASK,
    SIP_BYTES,
    Answer,
    LogRange,
    TaskJob,
    chunks_in,
    copy_range,
    divided,
    task_count,
)
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.pipeline.part_writer import PartTarget, exact_chunks
from breakglass.services.pipeline.spark_job import packed, unpacked
from breakglass.services.pipeline.topic_copy import explained
from breakglass.services.record_batches import Compression
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.part import SegmentPart
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.summary import Gap, GapReason
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import CLUSTER_ID, TOPIC_ID
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.pipeline.batches.fake_log import ORDERS, TENS, FakeLog, led_by
from tests.unit.topic_backup.older_bytes import message_set, wrapped
from tests.unit.topic_backup.shapes import run

SECONDS = DEADLINE_SECONDS
longs = st.integers(-1, 2**63 - 1)
versions = pytest.mark.parametrize("version", range(4, 14))

Topic = FetchResponse.FetchableTopicResponse
Partition = Topic.PartitionData


def encoded(version: int, *partitions: Any, **fields: Any) -> memoryview:
    topic = Topic(topic="orders", topic_id=TOPIC_ID, partitions=list(partitions))
    answer = FetchResponse(responses=[topic] if partitions else [], **fields)
    return memoryview(bytes(answer.encode(version=version)))


@versions
@given(
    records=st.none() | st.binary(max_size=300),
    aborted=st.none() | st.lists(st.tuples(longs, longs), max_size=3),
    marks=st.tuples(longs, longs),
    error=st.integers(-1, 120),
    throttle=st.integers(0, 2**31 - 1),
)
def test_everything_of_an_answer_is_read(
    version: int,
    records: bytes | None,
    aborted: list[tuple[int, int]] | None,
    marks: tuple[int, int],
    error: int,
    throttle: int,
) -> None:
    made = Partition.AbortedTransaction
    partition = Partition(
        partition_index=3,
        error_code=error,
        high_watermark=7,
        last_stable_offset=marks[0],
        log_start_offset=marks[1],
        aborted_transactions=None
        if aborted is None
        else [made(producer_id=producer, first_offset=first) for first, producer in aborted],
        records=records,
    )
    body = encoded(version, partition, throttle_time_ms=throttle)
    log_start = marks[1] if version >= 5 else -1
    expected = FetchAnswer(
        throttle, error, marks[0], log_start, tuple(aborted or ()), None, records or b""
    )
    assert FetchAnswer.decode(body, version=version) == expected


@versions
@given(cut=st.integers(1, 120))
def test_an_answer_that_is_cut_is_an_error_and_one_without_the_partition_says_so(
    version: int, cut: int
) -> None:
    empty = FetchAnswer.decode(encoded(version, error_code=70), version=version)
    assert (empty.empty, empty.error_code) == (True, 70 if version >= 7 else 0)
    partition = Partition(partition_index=3, high_watermark=7, records=b"x" * 90)
    body = encoded(version, partition)
    # Tagged fields end it, and there are none: without the last ones nothing is missing.
    kept = body[: max(0, len(body) - cut - 3)]
    with pytest.raises((struct.error, ValueError), match="bytes"):
        FetchAnswer.decode(kept, version=version)


def lying(start: int, end: int) -> LogRange:
    return LogRange(ORDERS, TOPIC_ID, 1, start, end)


@pytest.mark.parametrize(
    ("lengths", "cores", "tasks"),
    [((2,), 2, 2), ((9,), 2, 2), ((3, 1), 4, 4), ((1, 1, 1), 2, 3), ((1,), 4, 1)],
)
def test_long_ranges_are_divided_between_the_cores(
    lengths: tuple[int, ...], cores: int, tasks: int
) -> None:
    ranges = [lying(5, 5 + length * OFFSETS_A_TASK) for length in lengths]
    pieces = divided(ranges, cores)
    assert len(pieces) == tasks
    covered = sorted(offset for piece in pieces for offset in (piece.start, piece.end))
    assert {5, *(piece.end for piece in ranges)} <= set(covered)
    assert sum(piece.offsets for piece in pieces) == sum(piece.offsets for piece in ranges)


NOT_ALLOWED, NOT_LEADER = 29, 6
PASSWORD = "a password that nobody may see"


def job(
    cluster: FakeCluster, folder: Path, cluster_id: str | None = CLUSTER_ID
) -> TaskJob[SegmentPart]:
    settings = ConnectionSettings((cluster.brokers[1].endpoint,))
    target = PartTarget(LocalFolder(folder), "r1", 2**30)
    return TaskJob(packed(settings), cluster_id, partial(copy_range, {ORDERS.topic: target}))


def answers(job: TaskJob[SegmentPart], *bounds: tuple[int, int]) -> list[Answer[SegmentPart]]:
    return list(job([lying(*bound) for bound in bounds]))


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        pytest.param({"error_code": NOT_ALLOWED}, NotAuthorized, id="not allowed"),
        pytest.param({"records": bytes(16) + b"\3" + bytes(90)}, MalformedMessage, id="format"),
    ],
)
def test_what_trying_again_does_not_change_is_answered(
    cluster: FakeCluster, log: FakeLog, tmp_path: Path, first: dict[str, Any], kind: type[Exception]
) -> None:
    log.first = [first]
    (answer,) = answers(job(cluster, tmp_path), (0, 50))
    assert type(answer) is kind
    again = pickle.loads(pickle.dumps(answer))  # noqa: S301
    assert (type(again), str(again)) == (kind, str(answer)), "as it comes to the driver"
    assert list(tmp_path.iterdir()) == []


def test_what_may_pass_is_raised_for_spark_to_try_the_task_again(
    cluster: FakeCluster, log: FakeLog, tmp_path: Path
) -> None:
    with pytest.raises(StorageError):
        answers(job(cluster, tmp_path / "not there"), (0, 50))
    cluster.story.states[ORDERS] = led_by(None)
    log.first = [{"error_code": NOT_LEADER}] * 20
    with pytest.raises(TimedOut):
        answers(replace(job(cluster, tmp_path), seconds=0.3), (0, 50))


def test_another_cluster_at_the_same_addresses_is_not_read(
    cluster: FakeCluster, log: FakeLog, tmp_path: Path
) -> None:
    planned_elsewhere = job(cluster, tmp_path, "the one that was planned")
    (answer,) = answers(planned_elsewhere, (0, 50))
    assert isinstance(answer, WrongCluster)
    assert f"lead to cluster {CLUSTER_ID}, and the one that was planned is" in str(answer)
    assert log.asked == []
    assert answers(job(cluster, tmp_path, None), (0, 50)), "an older broker does not name it"


@pytest.mark.parametrize(
    ("ranges", "master", "tasks"),
    [(3, "local[*,4]", 3), (1000, "local[*,4]", 16), (1000, "spark://b1:7077", 1000)],
)
def test_tasks_of_this_machine_share_their_logins(ranges: int, master: str, tasks: int) -> None:
    assert task_count(ranges, master, 2) == tasks


def test_settings_come_to_a_task_with_their_secrets_and_are_never_seen() -> None:
    login = SaslSettings("SCRAM-SHA-256", PasswordLogin("admin", Secret(PASSWORD)))
    settings = ConnectionSettings((), sasl=login)
    made = TaskJob(packed(settings), CLUSTER_ID, partial(copy_range, {}))
    assert unpacked(made.connection) == settings
    assert PASSWORD not in repr(made)
    with pytest.raises(TypeError, match="a secret is not written anywhere"):
        pickle.dumps(settings)


def copied(
    client: ReadClient,
    folder: Path,
    whole: LogRange,
    limit: int = 2**30,
    rate: float | None = None,
    seconds: float = SECONDS,
) -> list[SegmentPart]:
    target = PartTarget(LocalFolder(folder), "r1", limit, rate)
    client.describe(Deadline.after(SECONDS))
    return list(copy_range({ORDERS.topic: target}, client, whole, 4, seconds))


def test_of_a_task_that_fails_nothing_is_left(
    client: ReadClient, log: FakeLog, tmp_path: Path
) -> None:
    log.stable = 50
    with pytest.raises(TimedOut):
        copied(client, tmp_path, lying(0, 60), seconds=0.2)
    assert list(tmp_path.iterdir()) == []


def test_beside_live_traffic_little_is_asked_for_at_a_time(
    client: ReadClient, log: FakeLog, tmp_path: Path
) -> None:
    copied(client, tmp_path, lying(0, 50), rate=1e9)
    assert {size for _, _, size in log.asked} == {SIP_BYTES}


HELD = [*range(3), *range(6, 9), 10, 13, *range(20, 50)]
"""Offsets; the others were compacted away."""


def committed_log(client: ReadClient, log: FakeLog) -> CommittedLog:
    """A log that begins in message format 1."""
    client.describe(Deadline.after(SECONDS))
    log.batches = [
        wrapped([*run(0, 3), *run(6, 9)], 1, Compression.GZIP),
        message_set(run(10, 11), 1),
        message_set(run(13, 14), 1),
        *TENS[2:],
    ]
    return CommittedLog(client.sender, 1, ORDERS)


def test_older_messages_are_read_record_by_record_as_in_batches(
    client: ReadClient, log: FakeLog
) -> None:
    exact = b"".join(bytes(chunk.data) for chunk in exact_chunks(committed_log(client, log), 1, 45))
    wanted = LogRange(ORDERS, TOPIC_ID, 1, 1, 45)
    assert b"".join(bytes(chunk.data) for chunk in chunks_in(client, wanted, SECONDS)) == exact
    records = [record for record in run(1, 45) if record.offset in HELD]
    assert exact == b"".join(map(encode, records))


def test_what_was_compacted_out_of_older_messages_is_explained(
    client: ReadClient, log: FakeLog
) -> None:
    spans = [(3, 6), (9, 10), (11, 13)]
    gaps = list(explained(committed_log(client, log), spans, compacted=True))
    assert gaps == [Gap(*span, GapReason.COMPACTION) for span in spans]


def test_a_committed_record_that_was_not_delivered_is_no_gap(
    client: ReadClient, log: FakeLog
) -> None:
    with pytest.raises(PipelineError):
        list(explained(committed_log(client, log), [(22, 23)], compacted=True))
