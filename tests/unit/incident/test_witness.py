"""A watch that sees a partition come back with less than it saw, and does not forget it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.model import TopicPartition
from tests.kit.fake_cluster import FakeCluster
from tests.unit.incident.conftest import Session, Watched

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """`orders-0` waits for b3, which is dead; b1 holds 103 records and b2 70."""
    with FakeCluster(3) as cluster:
        cluster.story.offline(ORDERS, (3, 1, 2), last=(3,))
        cluster.hold(1, ORDERS, (0, 103))
        cluster.hold(2, ORDERS, (0, 70))
        cluster.story.fenced = {3}
        cluster.brokers[3].stop()
        yield cluster


def elect(cluster: FakeCluster, leader: int) -> None:
    """What somebody else does."""
    state = cluster.story.states[ORDERS]
    cluster.story.states[ORDERS] = replace(
        state, leader=leader, leader_epoch=state.leader_epoch + 1, isr=(leader,)
    )


def test_an_election_by_somebody_else_with_a_shorter_log_is_seen(
    cluster: FakeCluster, watched: Watched
) -> None:
    watched.read()
    elect(cluster, 2)
    assert "b2 leads with 70 records, b1 had 103; 33 records are only on b1" in watched.alarms()
    assert watched.read().rows == ()
    cluster.hold(1, ORDERS, (0, 70))
    assert "b1 has been truncated" in watched.alarms()


def test_an_election_of_the_best_log_is_no_alarm(
    cluster: FakeCluster, watched: Watched, tmp_path: Path
) -> None:
    watched.read()
    elect(cluster, 1)
    assert watched.read().observations == ()
    assert not list((tmp_path / "observed").rglob("*.jsonl"))


@pytest.mark.parametrize("agreed", [1, 2])
def test_an_election_that_was_agreed_to_here_is_no_alarm_and_another_one_is(
    cluster: FakeCluster, watched: Watched, agreed: int
) -> None:
    watched.read()
    watched.watch.agreed({ORDERS: agreed})
    elect(cluster, 2)
    assert len(watched.read().observations) == (agreed != 2)


def test_what_was_read_before_a_broker_went_down_is_remembered(
    cluster: FakeCluster, watched: Watched
) -> None:
    watched.read()
    watched.stop(1)
    assert watched.read().rows[0].unread == (3, 1)
    elect(cluster, 2)
    assert "33 records are only on b1, not truncated yet; do not start b1" in watched.alarms()


def test_a_leader_that_does_not_answer_is_read_later(
    cluster: FakeCluster, watched: Watched
) -> None:
    watched.read()
    elect(cluster, 2)
    held = cluster.replicas.pop((2, ORDERS))
    assert watched.read().observations == ()
    cluster.replicas[2, ORDERS] = held
    assert "b2 leads with 70 records" in watched.alarms()


def test_sessions_share_what_they_see_until_one_of_them_acknowledges_it(
    cluster: FakeCluster, watched: Watched, session: Session
) -> None:
    other = session()
    other.read()
    watched.read()
    elect(cluster, 2)
    seen = watched.alarms()
    assert "33 records" in seen
    assert other.alarms() == session().alarms() == seen
    watched.watch.acknowledge()
    assert watched.alarms() == other.alarms() == ""
    (kept,) = session().read().observations
    assert kept.acknowledged_by


def test_what_was_agreed_to_here_is_no_alarm_though_another_session_sees_one(
    cluster: FakeCluster, watched: Watched, session: Session
) -> None:
    other = session()
    other.read()
    watched.read()
    watched.watch.agreed({ORDERS: 2})
    elect(cluster, 2)
    watched.read()
    assert "33 records" in other.alarms()
    assert watched.alarms() == ""


def test_a_state_folder_that_cannot_be_written_is_reported_and_stops_nothing(
    cluster: FakeCluster, watched: Watched, tmp_path: Path
) -> None:
    (tmp_path / "observed").write_text("a file where the folder belongs")
    watched.read()
    elect(cluster, 2)
    assert "33 records" in watched.alarms()
    assert str(tmp_path / "observed") in watched.read().unwritten
    assert all(observation.acknowledged for observation in watched.watch.acknowledge())
