"""A watch that sees a partition come back with less than it saw, and does not forget it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.incident import broker_liveness, watch, witness
from breakglass.services.incident.election_words import alarm_lines
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.observations import unacknowledged
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.evidence import few_logs
from breakglass.services.session import ReadAccess
from tests.kit.deadlines import endless
from tests.kit.fake_cluster import FakeCluster

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """`orders-0` waits for b3, which is dead; b1 holds 103 records and b2 70."""
    endless(monkeypatch)
    monkeypatch.setattr(broker_liveness, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(watch, "METADATA_SHARE", 1.0)
    monkeypatch.setattr(witness, "FOLLOW_SECONDS", 0.0)
    monkeypatch.setattr(few_logs, "REST_SECONDS", 0.0)
    with FakeCluster(3) as cluster:
        cluster.story.offline(ORDERS, (3, 1, 2), last=(3,))
        cluster.hold(1, ORDERS, (0, 103))
        cluster.hold(2, ORDERS, (0, 70))
        cluster.story.fenced = {3}
        cluster.brokers[3].stop()
        yield cluster


@contextmanager
def watching(cluster: FakeCluster, folder: Path) -> Iterator[IncidentWatch]:
    settings = ConnectionSettings((cluster.brokers[1].endpoint, cluster.brokers[2].endpoint))
    with closing(IncidentWatch(ReadAccess(settings), state_folder=folder)) as watched:
        yield watched


def last(
    watched: IncidentWatch, before: Incident | None = None, *, everything: bool = False
) -> Incident:
    *_, incident = watched.read(before, everything=everything)
    return incident


def elect(cluster: FakeCluster, leader: int) -> None:
    """What somebody else does."""
    state = cluster.story.states[ORDERS]
    cluster.story.states[ORDERS] = replace(
        state, leader=leader, leader_epoch=state.leader_epoch + 1, isr=(leader,)
    )


def alarms(incident: Incident) -> str:
    return "; ".join(alarm_lines(unacknowledged(incident.observations)))


def test_an_election_by_somebody_else_with_a_shorter_log_is_seen(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    with watching(cluster, tmp_path) as watched:
        before = last(watched)
        elect(cluster, 2)
        after = last(watched, before)
        assert "b2 leads with 70 records, b1 had 103; 33 records are only on b1" in alarms(after)
        assert after.summary.headline == "No partition is offline."
        cluster.hold(1, ORDERS, (0, 70))
        assert "b1 has been truncated" in alarms(last(watched, after))


def test_an_election_of_the_best_log_is_no_alarm(cluster: FakeCluster, tmp_path: Path) -> None:
    with watching(cluster, tmp_path) as watched:
        before = last(watched)
        elect(cluster, 1)
        assert last(watched, before).observations == ()
    assert not list((tmp_path / "observed").rglob("*.jsonl"))


def test_an_election_that_was_agreed_to_here_is_no_alarm_and_another_one_is(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    with watching(cluster, tmp_path) as watched:
        before = last(watched)
        watched.agreed({ORDERS: 2})
        elect(cluster, 2)
        assert last(watched, before).observations == ()
    with watching(cluster, tmp_path) as watched:
        cluster.story.offline(ORDERS, (3, 1, 2), last=(3,), leader_epoch=8)
        before = last(watched)
        watched.agreed({ORDERS: 1})
        elect(cluster, 2)
        assert len(last(watched, before).observations) == 1


def test_what_was_read_before_a_broker_went_down_is_remembered(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    with watching(cluster, tmp_path) as watched:
        before = last(watched)
        cluster.story.fenced = {1, 3}
        cluster.brokers[1].stop()
        without = last(watched, before)
        assert without.rows[0].unread == (3, 1)
        elect(cluster, 2)
        assert "33 records are only on b1, not truncated yet; do not start b1" in alarms(
            last(watched, without)
        )


def test_a_leader_that_does_not_answer_is_read_later(cluster: FakeCluster, tmp_path: Path) -> None:
    with watching(cluster, tmp_path) as watched:
        before = last(watched)
        elect(cluster, 2)
        held = cluster.replicas.pop((2, ORDERS))
        after = last(watched, before)
        assert after.observations == ()
        cluster.replicas[2, ORDERS] = held
        assert "b2 leads with 70 records" in alarms(last(watched, after))


def test_another_session_says_it_too_until_one_of_them_acknowledges_it(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    with watching(cluster, tmp_path) as watched:
        before = last(watched)
        elect(cluster, 2)
        seen = last(watched, before)
        with watching(cluster, tmp_path) as another:
            assert alarms(last(another)) == alarms(seen)
        watched.acknowledge()
        assert alarms(last(watched, seen)) == ""
    with watching(cluster, tmp_path) as another:
        (kept,) = last(another).observations
        assert kept.acknowledged_by


def test_two_sessions_share_what_they_see_and_what_was_acknowledged(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    with watching(cluster, tmp_path) as one, watching(cluster, tmp_path) as other:
        late = last(other)
        seen = last(one)
        elect(cluster, 2)
        assert "33 records" in alarms(last(one, seen))
        late = last(other, late)
        assert "33 records" in alarms(late)
        one.acknowledge()
        assert alarms(last(other, late)) == ""


def test_what_was_agreed_to_here_is_no_alarm_though_another_session_sees_one(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    with watching(cluster, tmp_path) as agreeing, watching(cluster, tmp_path) as other:
        mine, theirs = last(agreeing), last(other)
        agreeing.agreed({ORDERS: 2})
        elect(cluster, 2)
        mine = last(agreeing, mine)
        assert "33 records" in alarms(last(other, theirs))
        assert alarms(last(agreeing, mine)) == ""


def test_a_state_folder_that_cannot_be_written_is_reported_and_stops_nothing(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    (tmp_path / "observed").write_text("a file where the folder belongs")
    with watching(cluster, tmp_path) as watched:
        before = last(watched)
        elect(cluster, 2)
        after = last(watched, before)
        assert "33 records" in alarms(after)
        assert str(tmp_path / "observed") in after.unwritten
        assert all(observation.acknowledged for observation in watched.acknowledge())
