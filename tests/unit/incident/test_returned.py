"""A log that came back shorter than it was heard is seen by whoever looks next, and once (R26)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.incident.elections_seen import ElectionSeen, LogFate
from breakglass.services.incident.observations import Observations
from breakglass.services.incident.returned import compare_with_memory, saved_before
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Role, TopicPartition
from breakglass.services.recovery.remembered.heard import key_of
from breakglass.services.recovery.remembered.recollection import Recollection
from breakglass.services.recovery.triage import triage
from breakglass.services.session import Effort, ReadAccess
from tests.kit.deadlines import endless
from tests.kit.fake_cluster import FakeCluster
from tests.kit.waiting import DEADLINE_SECONDS

POWER = TopicPartition("power", 0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """`power` waits for b1, the last in sync; b2 and b3 hold 90 records."""
    endless(monkeypatch)
    with FakeCluster(3) as cluster:
        cluster.story.offline(POWER, (1, 2, 3), last=(1,))
        for broker in (2, 3):
            cluster.hold(broker, POWER, (0, 90))
        cluster.story.fenced = {1}
        # A triage while the partition is offline.
        with access(cluster).reading() as client:
            list(triage(client, DEADLINE_SECONDS, contents=Effort.OFF))
        yield cluster


def access(cluster: FakeCluster) -> ReadAccess:
    return ReadAccess(ConnectionSettings((cluster.brokers[2].endpoint,)), contents=Effort.OFF)


def look(cluster: FakeCluster) -> Sequence[ElectionSeen]:
    """What a command in a process of its own sees."""
    with access(cluster).reading() as client:
        snapshot = client.snapshot(Deadline.after(DEADLINE_SECONDS))
        compare_with_memory(client, snapshot, Recollection(snapshot.cluster_id))
    return [one.seen for one in Observations(snapshot.cluster_id).load()]


def come_back(cluster: FakeCluster, end: int) -> None:
    """b1 is elected with its log to *end*; b2 follows it, b3 does not yet."""
    state = cluster.story.states[POWER]
    cluster.story.fenced = set()
    cluster.story.states[POWER] = replace(
        state, leader=1, leader_epoch=state.leader_epoch + 1, isr=(1, 2), last_known_elr=()
    )
    for broker in (1, 2):
        cluster.hold(broker, POWER, (0, end))


def test_r26_a_leader_that_came_back_with_less_is_seen_by_the_next_command(
    cluster: FakeCluster,
) -> None:
    come_back(cluster, 80)
    (seen,) = look(cluster)
    assert (seen.leader, seen.log_end, seen.best_end, seen.missing) == (1, 80, 90, 10)
    fates = {holder.broker: holder.kept for holder in seen.holders}
    assert fates == {2: LogFate.TRUNCATED, 3: LogFate.RUNNING}


def test_a_leader_that_came_back_whole_is_no_alarm(cluster: FakeCluster) -> None:
    come_back(cluster, 90)
    assert look(cluster) == []


def test_each_election_is_compared_once(cluster: FakeCluster) -> None:
    come_back(cluster, 90)
    look(cluster)
    cluster.hold(1, POWER, (0, 10))
    assert look(cluster) == []
    state = cluster.story.states[POWER]
    assert Recollection("fake-cluster").memory.compared(key_of(state)) == state.leader_epoch


def test_a_partition_that_was_never_heard_is_not_compared(cluster: FakeCluster) -> None:
    (Recollection("fake-cluster").memory.path).unlink()
    come_back(cluster, 80)
    assert look(cluster) == []


def test_a_leader_that_does_not_answer_is_compared_later(cluster: FakeCluster) -> None:
    come_back(cluster, 80)
    held = cluster.replicas.pop((1, POWER))
    assert look(cluster) == []
    cluster.replicas[1, POWER] = held
    assert [one.log_end for one in look(cluster)] == [80]


def test_what_no_rescue_has_is_nowhere_saved(cluster: FakeCluster, tmp_path: Path) -> None:
    come_back(cluster, 80)
    seen = look(cluster)
    states = {POWER: cluster.story.states[POWER]}
    assert states[POWER].role(1) is Role.ISR
    assert list(saved_before(seen, states, [tmp_path, tmp_path / "nowhere"])) == []
