"""A watch that sees a partition come back with less than it saw, and does not forget it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.guard.journal import Journal
from breakglass.services.incident.elections_seen import ElectionSeen, LogFate, Observations
from breakglass.services.incident.witness import compare_with_memory
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.steps import ELECT, described
from breakglass.services.recovery.remembered.recollection import Recollection
from breakglass.services.recovery.remembered.store import key_of
from breakglass.services.recovery.triage import triage
from breakglass.services.session import Effort, ReadAccess
from tests.kit.deadlines import endless
from tests.kit.fake_cluster import FakeCluster
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.incident.conftest import Session, Watched
from tests.unit.recovery.execution.targets import target
from tests.unit.recovery.timeline.journals import elected

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


def test_what_was_read_before_a_broker_went_down_is_remembered(
    cluster: FakeCluster, watched: Watched
) -> None:
    watched.read()
    watched.stop(1)
    assert watched.read().rows[0].unread == (3, 1)
    elect(cluster, 2)
    assert "33 records are only on b1, not truncated yet; do not start b1" in watched.alarms()


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


POWER = TopicPartition("power", 0)


@pytest.fixture
def led_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """`power` waits for b1, the last in sync; b2 and b3 hold 90 records."""
    endless(monkeypatch)
    with FakeCluster(3) as led_cluster:
        led_cluster.story.offline(POWER, (1, 2, 3), last=(1,))
        for broker in (2, 3):
            led_cluster.hold(broker, POWER, (0, 90))
        led_cluster.story.fenced = {1}
        # A triage while the partition is offline.
        with access(led_cluster).reading() as client:
            list(triage(client, DEADLINE_SECONDS, contents=Effort.OFF))
        yield led_cluster


def access(led_cluster: FakeCluster) -> ReadAccess:
    return ReadAccess(ConnectionSettings((led_cluster.brokers[2].endpoint,)), contents=Effort.OFF)


def look(led_cluster: FakeCluster) -> Sequence[ElectionSeen]:
    """What a command in a process of its own sees."""
    with access(led_cluster).reading() as client:
        snapshot = client.snapshot(Deadline.after(DEADLINE_SECONDS))
        compare_with_memory(client, snapshot, Recollection(snapshot.cluster_id))
    return [one.seen for one in Observations(snapshot.cluster_id).load()]


def come_back(led_cluster: FakeCluster, end: int) -> None:
    """b1 is elected with its log to *end*; b2 follows it, b3 does not yet."""
    state = led_cluster.story.states[POWER]
    led_cluster.story.fenced = set()
    led_cluster.story.states[POWER] = replace(
        state, leader=1, leader_epoch=state.leader_epoch + 1, isr=(1, 2), last_known_elr=()
    )
    for broker in (1, 2):
        led_cluster.hold(broker, POWER, (0, end))


def test_r26_a_leader_that_came_back_with_less_is_seen_by_the_next_command(
    led_cluster: FakeCluster,
) -> None:
    come_back(led_cluster, 80)
    (seen,) = look(led_cluster)
    assert (seen.leader, seen.log_end, seen.best_end, seen.missing) == (1, 80, 90, 10)
    fates = {holder.broker: holder.kept for holder in seen.holders}
    assert fates == {2: LogFate.TRUNCATED, 3: LogFate.RUNNING}


@pytest.mark.parametrize(("end", "blamed"), [(80, False), (70, True)], ids=["no less", "less"])
def test_r26_a_leader_after_an_election_of_ours_is_compared_with_what_that_one_kept(
    led_cluster: FakeCluster, end: int, blamed: bool
) -> None:
    (Recollection("fake-cluster").memory.path).unlink()
    led_cluster.hold(2, POWER, (0, 80))
    with access(led_cluster).reading() as client:
        list(triage(client, DEADLINE_SECONDS, contents=Effort.OFF))
    state = led_cluster.story.states[POWER]
    item = {**described(target(POWER)), "topic_id": str(state.topic_id)}
    with Journal.open("fake-cluster") as journal:
        journal.plan("", "", {POWER: item})
        ours = elected(2, state.leader_epoch + 1)
        journal.outcome(journal.request(ELECT, {POWER: item}), {POWER: ours})
    led_cluster.story.states[POWER] = replace(state, leader_epoch=state.leader_epoch + 1)
    come_back(led_cluster, end)
    seen = look(led_cluster)
    assert [(one.leader, one.best, one.missing) for one in seen] == [(1, 2, 10)] * blamed


def test_r26_what_an_election_left_out_is_counted_once_whoever_leads_later(
    led_cluster: FakeCluster,
) -> None:
    come_back(led_cluster, 80)
    (first,) = look(led_cluster)
    state = led_cluster.story.states[POWER]
    moved = replace(state, leader=2, leader_epoch=state.leader_epoch + 1)
    led_cluster.story.states[POWER] = moved
    assert look(led_cluster) == [first], "b2 has all that b1 had"
    led_cluster.hold(3, POWER, (0, 70))
    led_cluster.story.states[POWER] = replace(moved, leader=3, leader_epoch=moved.leader_epoch + 1)
    again, _ = look(led_cluster)
    assert (again.leader, again.best_end, again.missing) == (3, 80, 10)


def test_each_election_is_compared_once(led_cluster: FakeCluster) -> None:
    come_back(led_cluster, 90)
    assert look(led_cluster) == [], "it came back whole"
    led_cluster.hold(1, POWER, (0, 10))
    assert look(led_cluster) == []
    state = led_cluster.story.states[POWER]
    assert Recollection("fake-cluster").memory.compared(key_of(state)) == state.leader_epoch
