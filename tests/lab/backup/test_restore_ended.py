"""Restores that ended before their time, or met somebody else: nothing is lost, nothing twice."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from breakglass.services.errors import Refused, UsageError
from breakglass.services.kafka.cluster.group_offsets import find_coordinator
from breakglass.services.kafka.cluster.settings import read_topic_configs
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern
from breakglass.services.lab.produce import produce as produce_many
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.backup_context import CopyProgress
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.pipeline.restore.state import read_state
from tests.lab.asking import transactional
from tests.lab.backup.backups import BackUp
from tests.lab.backup.independent import contents
from tests.lab.backup.producing import (
    SECONDS,
    delete_before,
    make,
    numbered,
    produce,
    put,
)
from tests.lab.backup.restores import Killed, Restore, die


@pytest.fixture
def backed_up(whole_broker: Cluster, back_up: BackUp, topic: str) -> str:
    """A topic of ten records, with a setting of its own."""
    make(whole_broker, topic, {"retention.ms": "-1", "segment.bytes": "1048576"})
    produce(whole_broker, topic, numbered(10))
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
    whole_broker: Cluster,
    restore: Restore,
    settings: Callable[[str], object],
    backed_up: str,
    target: str,
) -> None:
    assert settings(target) != settings(backed_up)
    with pytest.raises(Refused, match="--resume"):
        restore.plan(backed_up, target, into_existing=True)
    with pytest.raises(UsageError, match="started with"):
        restore.plan(backed_up, target, resume=True, until_offset=4)
    done = restore(restore.plan(backed_up, target, resume=True))
    assert (done.error, done.verified, done.records) == ("", True, 0)
    assert contents(whole_broker, target) == contents(whole_broker, backed_up)
    assert settings(target) == settings(backed_up)
    with pytest.raises(UsageError, match="nothing is left to resume"):
        restore.plan(backed_up, target, resume=True)
    with pytest.raises(Refused, match="is complete") as refused:
        restore.plan(backed_up, target)
    assert "--resume" not in str(refused.value)


def test_nothing_is_doubled_when_the_cluster_has_forgotten_how_far_it_came(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, backed_up: str, target: str
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
    assert contents(whole_broker, target) == contents(whole_broker, backed_up)


def test_a_resumed_restore_keeps_to_what_was_begun(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, backed_up: str, target: str
) -> None:
    produce(whole_broker, backed_up, numbered(5, start=10))
    back_up.topic(backed_up)
    plan = restore.plan(backed_up, target, resume=True)
    assert plan.records == 10
    done = restore(plan)
    assert (done.error, done.verified) == ("", True)
    assert len(contents(whole_broker, target)) == 10


def test_a_lost_state_is_told_and_nothing_is_doubled(
    whole_broker: Cluster, restore: Restore, backed_up: str, target: str
) -> None:
    state = read_state(restore.state / target)
    assert state is not None
    state.log_of(0).unlink()
    done = restore(restore.plan(backed_up, target, resume=True))
    assert "--progress" in done.error
    assert len(contents(whole_broker, target)) == 10


def test_records_that_expire_before_the_end_is_noted_are_not_missed(
    whole_broker: Cluster, restore: Restore, settings: Callable[[str], object], backed_up: str
) -> None:
    """Killed when the topic had its own settings again, and lost records by them."""
    target = f"{backed_up}-back"
    assert restore(restore.plan(backed_up, target)).verified
    state = read_state(restore.state / target)
    assert state is not None
    replace(state, ended=False).keep()
    delete_before(whole_broker, target, 5)
    done = restore(restore.plan(backed_up, target, resume=True))
    assert (done.error, done.verified, done.settings_back) == ("", True, True)
    assert settings(target) == settings(backed_up)


def test_of_two_restores_into_one_topic_the_second_is_refused(
    whole_broker: Cluster, restore: Restore, backed_up: str, tmp_path: Path
) -> None:
    """Planned when the topic was not there; by operators who share nothing."""
    target = f"{backed_up}-back"
    elsewhere = Restore(restore.back_up, tmp_path / "elsewhere")
    mine, theirs = restore.plan(backed_up, target), elsewhere.plan(backed_up, target)
    assert restore(mine).error == ""
    assert "after the plan was made" in elsewhere(theirs).error
    assert len(contents(whole_broker, target)) == 10


def test_a_topic_that_is_deleted_midway_does_not_come_back(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    make(whole_broker, topic)
    produce_many(whole_broker, topic, 0, 30_000, pattern=Pattern(value_bytes=300))
    back_up.topic(topic)
    target = f"{topic}-back"
    admin = AdminClient({"bootstrap.servers": whole_broker.bootstrap_servers})
    deleted: list[object] = []

    def delete(now: CopyProgress) -> None:
        if 0 < now.done < now.total and not deleted:
            deleted.append(admin.delete_topics([target])[target].result(SECONDS))

    done = restore(restore.plan(topic, target), tell=delete, records_a_transaction=100)
    assert deleted != []
    assert "deleted" in done.error
    assert target not in admin.list_topics(timeout=SECONDS).topics


RECORDS = 10
Begin = Callable[[str, str], Producer]


@pytest.fixture
def killed(whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str) -> str:
    """A topic of ten records, whose restore was killed before its records were compared."""
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(RECORDS))
    back_up.topic(topic)
    with pytest.raises(Killed):
        restore(restore.plan(topic, f"{topic}-back"), tell=die)
    return topic


@pytest.fixture
def begin(whole_broker: Cluster) -> Begin:
    """Begins a transaction of a transactional id in a topic, and leaves it open."""

    def begun(transactional_id: str, topic: str) -> Producer:
        client = transactional(whole_broker, transactional_id)
        client.begin_transaction()
        put(client, topic, numbered(1))
        return client

    return begun


def test_the_transaction_that_a_killed_restore_left_open_is_aborted_by_its_resume(
    whole_broker: Cluster, restore: Restore, killed: str, begin: Begin
) -> None:
    target = f"{killed}-back"
    state = read_state(restore.state / target)
    assert state is not None
    begin(f"breakglass-restore-{state.restore_id}-{target}-0", target)
    done = restore(restore.plan(killed, target, resume=True))
    assert (done.error, done.verified) == ("", True)
    assert contents(whole_broker, target) == contents(whole_broker, killed)


def test_a_transaction_of_another_producer_that_stays_open_refuses_a_restore(
    restore: Restore, killed: str, begin: Begin
) -> None:
    target = f"{killed}-back"
    other = begin(f"other-{target}", target)
    with pytest.raises(Refused, match=r"open since offset .* wait for that, or restore with"):
        restore(restore.plan(killed, target, resume=True))
    other.abort_transaction(SECONDS)
    done = restore(restore.plan(killed, target, resume=True))
    assert (done.error, done.verified) == ("", True)


def test_committed_records_past_an_open_transaction_are_found(
    whole_broker: Cluster, client: ReadClient, topic: str, begin: Begin
) -> None:
    make(whole_broker, topic)
    early = begin(f"early-{topic}", topic)  # Offset 0.
    begin(f"open-{topic}", topic)  # Offset 1: the last stable offset from now on.
    produce(whole_broker, topic, numbered(2))  # Offsets 2 and 3.
    put(early, topic, numbered(1))  # Offset 4.
    early.commit_transaction(SECONDS)  # Its marker has offset 5.
    aborted = begin(f"aborted-{topic}", topic)  # Offset 6.
    aborted.abort_transaction(SECONDS)  # Offset 7.
    client.describe(Deadline.after(SECONDS))
    log = CommittedLog(client.sender, 1, TopicPartition(topic, 0))
    assert [record.offset for record in log.records(0, 1)] == [0]
    beside = log.records_beside_open_transactions(1, 8)
    assert sorted(record.offset for record in beside) == [2, 3, 4]
