"""Restores that ended before their time, or met somebody else: nothing is lost, nothing twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from breakglass.services.errors import Refused, UsageError
from breakglass.services.kafka.cluster.group_offsets import find_coordinator
from breakglass.services.kafka.cluster.topic_settings import read_topic_configs
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern
from breakglass.services.lab.produce import produce as produce_many
from breakglass.services.pipeline.report import CopyProgress
from breakglass.services.pipeline.restore.state import read_state
from tests.pipeline.backups import BackUp
from tests.pipeline.producing import SECONDS, make, numbered, produce
from tests.pipeline.restores import Restore
from tests.pipeline.test_restore import without_offsets
from tests.pipeline.watching import python_workers

pytestmark = pytest.mark.slow


class Killed(BaseException):
    """The restore ends here, as if its process had been killed."""


def die(now: CopyProgress) -> None:
    """End it in the thread that restores: the one that watches beside it may be told first."""
    if now.done == now.total and threading.current_thread() is threading.main_thread():
        raise Killed


@pytest.fixture
def backed_up(broker: Cluster, back_up: BackUp, topic: str) -> str:
    """A topic of ten records, with a setting of its own."""
    make(broker, topic, {"retention.ms": "-1", "segment.bytes": "1048576"})
    produce(broker, topic, numbered(10))
    back_up.topic(topic)
    return topic


@pytest.fixture
def settings(back_up: BackUp) -> Callable[[str], object]:
    """The own settings of a topic."""

    def read(topic: str) -> object:
        sender = back_up.client.sender
        return read_topic_configs(sender, [topic], Deadline.after(SECONDS))[topic]

    return read


@pytest.fixture
def target(restore: Restore, backed_up: str) -> str:
    """A topic whose restore was killed when its records were there, and nothing else."""
    with pytest.raises(Killed):
        restore(restore.plan(backed_up, f"{backed_up}-back"), tell=die)
    return f"{backed_up}-back"


def test_a_killed_restore_is_gone_on_with_or_refused(
    broker: Cluster,
    restore: Restore,
    settings: Callable[[str], object],
    backed_up: str,
    target: str,
) -> None:
    assert settings(target) != settings(backed_up)
    with pytest.raises(Refused, match="--resume"):
        restore.plan(backed_up, target, into_existing=True)
    done = restore(restore.plan(backed_up, target, resume=True))
    assert (done.error, done.verified, done.records) == ("", True, 0)
    assert without_offsets(broker, target) == without_offsets(broker, backed_up)
    assert settings(target) == settings(backed_up)
    with pytest.raises(UsageError, match="without --resume"):
        restore.plan(backed_up, target, resume=True)


def test_nothing_is_doubled_when_the_cluster_has_forgotten_how_far_it_came(
    broker: Cluster, back_up: BackUp, restore: Restore, backed_up: str, target: str
) -> None:
    """Offsets of groups expire after a week."""
    state = read_state(restore.state / target)
    assert state is not None
    group = f"breakglass-restore-{state.restore_id}"
    with restore.power.topics(restore.plan(backed_up, "other").cluster_id) as topics:
        deadline = Deadline.after(SECONDS)
        coordinator = find_coordinator(back_up.client.sender, group, deadline)
        topics.forget_group(coordinator, group, deadline)
    log = state.log_of(0)
    announced, _ = log.read_text().splitlines()
    log.write_text(f"{announced}\n")
    done = restore(restore.plan(backed_up, target, resume=True))
    assert (done.error, done.verified, done.records) == ("", True, 0)
    assert without_offsets(broker, target) == without_offsets(broker, backed_up)


def test_a_resumed_restore_keeps_to_what_was_begun(
    broker: Cluster, back_up: BackUp, restore: Restore, backed_up: str, target: str
) -> None:
    produce(broker, backed_up, numbered(5, start=10))
    back_up.topic(backed_up)
    plan = restore.plan(backed_up, target, resume=True)
    assert plan.records == 10
    done = restore(plan)
    assert (done.error, done.verified) == ("", True)
    assert len(without_offsets(broker, target)) == 10


def test_a_lost_state_is_told_and_nothing_is_doubled(
    broker: Cluster, restore: Restore, backed_up: str, target: str
) -> None:
    state = read_state(restore.state / target)
    assert state is not None
    state.log_of(0).unlink()
    done = restore(restore.plan(backed_up, target, resume=True))
    assert "--progress" in done.error
    assert len(without_offsets(broker, target)) == 10


def test_a_topic_made_before_the_kill_gets_its_own_settings(
    restore: Restore, settings: Callable[[str], object], backed_up: str, tmp_path: Path
) -> None:
    """Killed between the creation of the topic and the note that it is there."""
    target = f"{backed_up}-back"
    plan = restore.plan(backed_up, target)
    with pytest.raises(Killed):
        restore(plan, tell=die)
    state = read_state(restore.state / target)
    assert state is not None
    unbound = (restore.state / target / "restore.json").read_text()
    other = f"{backed_up}-other"
    folder = restore.state / other
    folder.mkdir(parents=True)
    text = unbound.replace(f'"{state.topic_id}"', "null").replace(target, other)
    (folder / "restore.json").write_text(text)
    make(restore.broker, other, {"cleanup.policy": "delete", "retention.ms": "-1"})
    done = restore(restore.plan(backed_up, other))
    assert (done.error, done.verified) == ("", True)
    assert settings(other) == settings(backed_up)


def test_records_that_expire_before_the_end_is_noted_are_not_missed(
    restore: Restore, settings: Callable[[str], object], backed_up: str
) -> None:
    """Killed when the topic had its own settings again, and lost records by them."""
    target = f"{backed_up}-back"
    assert restore(restore.plan(backed_up, target)).verified
    state = read_state(restore.state / target)
    assert state is not None
    replace(state, ended=False).keep()
    admin = AdminClient({"bootstrap.servers": restore.broker.bootstrap_servers})
    (deleted,) = admin.delete_records([TopicPartition(target, 0, 5)]).values()
    deleted.result(SECONDS)
    done = restore(restore.plan(backed_up, target, resume=True))
    assert (done.error, done.verified, done.settings_back) == ("", True, True)
    assert settings(target) == settings(backed_up)


def test_a_restore_goes_on_with_the_options_it_was_begun_with(
    restore: Restore, backed_up: str, target: str
) -> None:
    with pytest.raises(UsageError, match="started with"):
        restore.plan(backed_up, target, resume=True, until_offset=4)


def test_of_two_restores_into_one_topic_the_second_is_refused(
    broker: Cluster, restore: Restore, backed_up: str, tmp_path: Path
) -> None:
    """Planned when the topic was not there; by operators who share nothing."""
    target = f"{backed_up}-back"
    elsewhere = Restore(broker, restore.back_up, restore.power, tmp_path / "elsewhere")
    mine, theirs = restore.plan(backed_up, target), elsewhere.plan(backed_up, target)
    assert restore(mine).error == ""
    assert "after the plan was made" in elsewhere(theirs).error
    assert len(without_offsets(broker, target)) == 10


def test_a_topic_that_is_deleted_midway_does_not_come_back(
    broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    make(broker, topic)
    produce_many(broker, topic, 0, 30_000, pattern=Pattern(value_bytes=300))
    back_up.topic(topic)
    target = f"{topic}-back"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    deleted: list[object] = []

    def delete(now: CopyProgress) -> None:
        if 0 < now.done < now.total and not deleted:
            deleted.append(admin.delete_topics([target])[target].result(SECONDS))

    done = restore(restore.plan(topic, target), tell=delete, records_a_transaction=100)
    assert deleted != []
    assert "deleted" in done.error
    assert target not in admin.list_topics(timeout=SECONDS).topics


def test_without_transactions_a_kill_may_double_records_and_that_is_told(
    broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    make(broker, topic)
    produce_many(broker, topic, 0, 30_000, pattern=Pattern(value_bytes=300))
    back_up.topic(topic)
    killed: list[int] = []

    def kill(now: CopyProgress) -> None:
        if 0 < now.done < now.total and len(killed) < 2:
            for worker in python_workers():
                worker.kill()
                killed.append(worker.pid)

    plan = restore.plan(topic, f"{topic}-back")
    how: dict[str, Any] = {"records_a_transaction": 50, "transactional": False}
    done = restore(plan, tell=kill, **how)
    assert killed != []
    assert done.error == ""
    restored = without_offsets(broker, f"{topic}-back")
    doubled = len(restored) - 30_000
    assert set(restored) == set(without_offsets(broker, topic))
    assert done.differences == ({"extra": doubled} if doubled else {})
    assert done.verified is (doubled == 0)
