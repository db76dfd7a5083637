"""A task answers with parts, or with what trying it again would not change."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from services.connection.sasl import PasswordLogin, SaslSettings
from services.connection.secret import Secret
from services.connection.settings import ConnectionSettings
from services.errors import (
    MalformedMessage,
    NotAuthorized,
    StorageError,
    TimedOut,
    WrongCluster,
)
from services.pipeline.batches.carried import packed, unpacked
from services.pipeline.batches.copying import CopyWork
from services.pipeline.batches.log_range import LogRange
from services.pipeline.batches.tasks import Answer, TaskJob, task_count
from services.pipeline.part_writer import PartTarget
from services.topic_backup.folder import LocalFolder
from services.topic_backup.part import SegmentPart
from tests.fake_cluster import FakeCluster
from tests.fake_metadata import CLUSTER_ID, TOPIC_ID
from tests.unit.pipeline.batches.fake_log import ORDERS, FakeLog, led_by

NOT_ALLOWED, NOT_LEADER = 29, 6
PASSWORD = "a password that nobody may see"


def job(cluster: FakeCluster, folder: Path, cluster_id: str | None = CLUSTER_ID) -> TaskJob:
    """Copies to *folder*; a partition that cannot be read is given up soon."""
    settings = ConnectionSettings((cluster.brokers[1].endpoint,))
    target = PartTarget(LocalFolder(folder), "r1", 2**30)
    return TaskJob(packed(settings), cluster_id, CopyWork({ORDERS.topic: target}), patience=0.3)


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
    (answer,) = answers(job(cluster, tmp_path, "the one that was planned"), (0, 50))
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
