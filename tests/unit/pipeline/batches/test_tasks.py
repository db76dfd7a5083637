"""A task answers with parts, or with what trying it again would not change."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.connection.sasl import PasswordLogin, SaslSettings
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.errors import (
    LogTruncated,
    MalformedMessage,
    NotAuthorized,
    StorageError,
    TimedOut,
    WrongCluster,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.batches.answer import FetchAnswer
from breakglass.services.pipeline.batches.log_range import LogRange
from breakglass.services.pipeline.batches.tasks import (
    SIP_BYTES,
    Answer,
    CopyWork,
    TaskJob,
    copy_range,
    task_count,
)
from breakglass.services.pipeline.part_writer import PartTarget
from breakglass.services.pipeline.spark_job import packed, unpacked
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.part import SegmentPart
from breakglass.services.topic_backup.record import encode
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import CLUSTER_ID, TOPIC_ID
from tests.unit.pipeline.batches.fake_log import ORDERS, FakeLog, led_by
from tests.unit.topic_backup.shapes import run

NOT_ALLOWED, NOT_LEADER = 29, 6
PASSWORD = "a password that nobody may see"


def job(cluster: FakeCluster, folder: Path, cluster_id: str | None = CLUSTER_ID) -> TaskJob:
    """Copies to *folder*; a partition that cannot be read is given up soon."""
    settings = ConnectionSettings((cluster.brokers[1].endpoint,))
    target = PartTarget(LocalFolder(folder), "r1", 2**30)
    return TaskJob(packed(settings), cluster_id, CopyWork({ORDERS.topic: target}), seconds=0.3)


def wanted(*bounds: tuple[int, int]) -> list[LogRange]:
    return [LogRange(ORDERS, TOPIC_ID, 1, start, end) for start, end in bounds]


def answers(job: TaskJob, *bounds: tuple[int, int]) -> list[Answer]:
    return list(job(wanted(*bounds)))


def test_parts_come_with_their_topic(cluster: FakeCluster, log: FakeLog, tmp_path: Path) -> None:
    ((topic, text),) = answers(job(cluster, tmp_path), (3, 30))  # type: ignore[misc]
    part = SegmentPart.from_json(text)
    assert (topic, part.first_offset, part.last_offset) == ("orders", 3, 29)


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        pytest.param({"error_code": NOT_ALLOWED}, NotAuthorized, id="not allowed"),
        pytest.param({"records": bytes(16) + b"\3" + bytes(90)}, MalformedMessage, id="format"),
    ],
)
def test_what_trying_again_does_not_change_is_answered(
    cluster: FakeCluster,
    log: FakeLog,
    tmp_path: Path,
    first: dict[str, Any],
    kind: type[Exception],
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
    cluster.story.states[ORDERS] = led_by(None)
    log.first = [{"error_code": NOT_LEADER}] * 20
    with pytest.raises(TimedOut, match="orders-3 has no leader"):
        answers(job(cluster, tmp_path), (0, 50))


def test_a_folder_that_cannot_be_written_is_raised(
    cluster: FakeCluster, log: FakeLog, tmp_path: Path
) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        answers(job(cluster, tmp_path / "not there"), (0, 50))


def test_another_cluster_at_the_same_addresses_is_not_read(
    cluster: FakeCluster, log: FakeLog, tmp_path: Path
) -> None:
    planned_elsewhere = job(cluster, tmp_path, "the one that was planned")
    (answer,) = answers(replace(planned_elsewhere, seconds=SECONDS), (0, 50))
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
    made = TaskJob(packed(settings), CLUSTER_ID, CopyWork({}))
    assert unpacked(made.connection) == settings
    assert PASSWORD not in repr(made)
    with pytest.raises(TypeError, match="a secret is not written anywhere"):
        pickle.dumps(settings)


RUN = "r1"
SECONDS = 10.0


def range_between(start: int, end: int) -> LogRange:
    return LogRange(ORDERS, TOPIC_ID, 1, start, end)


def copied(
    client: ReadClient,
    folder: Path,
    whole: LogRange,
    limit: int = 2**30,
    rate: float | None = None,
    seconds: float = SECONDS,
) -> list[SegmentPart]:
    target = PartTarget(LocalFolder(folder), RUN, limit, rate)
    client.describe(Deadline.after(SECONDS))
    return list(copy_range(client, whole, target, 4, seconds))


def test_the_records_of_a_range_become_a_part(
    client: ReadClient, log: FakeLog, tmp_path: Path
) -> None:
    (part,) = copied(client, tmp_path, range_between(7, 33))
    assert (part.partition, part.first_offset, part.last_offset, part.count) == (3, 7, 32, 26)
    content = (tmp_path / part.records).read_bytes()
    assert content[1:] == b"".join(map(encode, run(7, 33)))


def test_a_part_that_is_full_is_followed_by_another(
    client: ReadClient, log: FakeLog, tmp_path: Path
) -> None:
    parts = copied(client, tmp_path, range_between(0, 50), limit=400)
    assert [part.first_offset for part in parts] == [0, 10, 20, 30, 40]
    whole = b"".join((tmp_path / part.records).read_bytes()[1:] for part in parts)
    assert whole == b"".join(map(encode, run(0, 50)))


def test_of_a_task_that_fails_nothing_is_left(
    client: ReadClient, log: FakeLog, tmp_path: Path
) -> None:
    log.stable = 50
    with pytest.raises(TimedOut, match=r"the last stable offset of .* went back to 50"):
        copied(client, tmp_path, range_between(0, 60), seconds=0.2)
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_was_cut_back_fails_the_task(
    client: ReadClient, log: FakeLog, tmp_path: Path
) -> None:
    epoch_end = FetchAnswer(0, 0, 9, 0, (), (4, 8), b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FetchAnswer, "decode", lambda *_, **__: epoch_end)
        with pytest.raises(LogTruncated, match="cut back to offset 8"):
            copied(client, tmp_path, range_between(0, 50))
    assert list(tmp_path.iterdir()) == []


def test_beside_live_traffic_little_is_asked_for_at_a_time(
    client: ReadClient, log: FakeLog, tmp_path: Path
) -> None:
    copied(client, tmp_path, range_between(0, 50), rate=1e9)
    assert {size for _, _, size in log.asked} == {SIP_BYTES}
