"""A cluster that is watched: what changed is read again, what did not stays, nothing hangs."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from kafka.protocol.admin import (
    DescribeTopicPartitionsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest

from breakglass.services import patience
from breakglass.services.errors import WrongCluster
from breakglass.services.incident import changes, watch
from breakglass.services.incident.incident import Incident
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.assessment import Verdict
from tests.kit.clock import Clock
from tests.kit.deadlines import MOMENT
from tests.kit.fake_cluster import FakeCluster, partitions_of
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.incident.conftest import Session, Watched
from tests.unit.recovery.evidence.conftest import AfterAnswers

ORDERS = partitions_of("orders", 4)
OFFSETS = TopicPartition("__consumer_offsets", 0)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Four partitions of `orders` whose last leader, b3, is fenced and dead."""
    with FakeCluster(3) as cluster:
        for order in ORDERS:
            cluster.story.offline(order, (3, 1, 2), elr=(3,))
            for broker, records in ((1, 100), (2, 70), (3, 110)):
                cluster.hold(broker, order, (0, records))
        cluster.story.fenced = {3}
        cluster.brokers[3].stop()
        yield cluster


def change(cluster: FakeCluster, *partitions: TopicPartition, **fields: object) -> None:
    for partition in partitions:
        state = cluster.story.states[partition]
        cluster.story.states[partition] = replace(state, **fields)  # type: ignore[arg-type]


def asked(cluster: FakeCluster, broker: int = 1) -> list[TopicPartition]:
    """The partitions whose log end *broker* was asked for, in any request so far."""
    return [
        TopicPartition(topic.name, partition.partition_index)
        for request in cluster.brokers[broker].requests(ListOffsetsRequest)
        for topic in request.topics
        for partition in topic.partitions
    ]


def actions(incident: Incident) -> set[str]:
    return {str(row.action) for row in incident.rows}


def test_many_are_read_in_goes_internal_topics_first_and_groups_once(
    cluster: FakeCluster, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "FIRST_GO", 1)
    monkeypatch.setattr(changes, "GO", 2)
    monkeypatch.setattr(watch, "TELL_SECONDS", 0.0)
    cluster.story.offline(OFFSETS, (3, 1, 2), elr=(3,))
    assert [incident.judged for incident in watched.told()] == [0, 1, 3, 3, 5, 5, 5]
    assert len(cluster.brokers[1].requests(ListGroupsRequest)) == 1
    assert asked(cluster)[0] == OFFSETS


def test_while_nothing_changes_no_replica_is_read_and_rows_are_the_same(
    cluster: FakeCluster, watched: Watched
) -> None:
    before, requests = watched.read(), len(asked(cluster))
    (again,) = watched.told()
    assert again.rows is before.rows
    assert again.tally is before.tally
    assert again.read_at_ms >= before.read_at_ms
    assert len(asked(cluster)) == requests


def test_only_the_partition_that_changed_is_read(cluster: FakeCluster, watched: Watched) -> None:
    before, requests = watched.read(), len(asked(cluster))
    change(cluster, ORDERS[2], leader_epoch=6)
    cluster.hold(1, ORDERS[2], (0, 130))
    after = watched.read()
    assert set(asked(cluster)[requests:]) == {ORDERS[2]}
    assert [row.log_end for row in after.rows] == [100, 100, 130, 100]
    same = [old is new for old, new in zip(before.rows, after.rows, strict=True)]
    assert same == [True, True, False, True]


def test_everything_is_read_again_after_a_while_or_when_asked_for(
    cluster: FakeCluster, session: Session
) -> None:
    clock = Clock()
    watched = session(clock=clock)
    watched.read()
    cluster.hold(1, ORDERS[0], (0, 500))
    assert watched.read().rows[0].log_end == 100
    assert watched.read(everything=True).rows[0].log_end == 500
    cluster.hold(1, ORDERS[0], (0, 600))
    clock.advance(changes.EVERYTHING_SECONDS)
    assert watched.read().rows[0].log_end == 600


def test_a_replica_that_falls_silent_is_remembered_while_nobody_leads(
    cluster: FakeCluster, session: Session
) -> None:
    watched = session(gone=[3])
    watched.read()
    watched.stop(2)
    silent = watched.read()
    assert actions(silent) == {"elect b1"}
    assert [row.unread for row in silent.rows] == [(3, 2)] * 4
    again = watched.read(everything=True)
    assert [row.judged for row in again.rows] == [row.judged for row in silent.rows]
    change(cluster, *ORDERS, leader_epoch=cluster.story.states[ORDERS[0]].leader_epoch + 2)
    assert actions(watched.read()) == {"start b2"}


def test_a_quorum_that_is_lost_changes_verdicts_without_a_replica_being_read(
    cluster: FakeCluster, watched: Watched
) -> None:
    watched.read()
    requests = len(asked(cluster))
    cluster.story.quorum_leader = -1
    (after,) = watched.told()
    assert actions(after) == {"no quorum"}
    assert len(asked(cluster)) == requests
    cluster.story.quorum_leader = 101
    assert {row.verdict for row in watched.read().rows} == {Verdict.WAIT}


def test_a_hung_broker_is_awaited_once_for_its_time_and_then_rows_are_judged_anew(
    cluster: FakeCluster, session: Session
) -> None:
    change(cluster, *ORDERS, elr=(), assignment=(1, 2))
    cluster.brokers[2].hung = True
    clock, wait = Clock(), AfterAnswers(1)
    watched = session(duration=20.0, clock=clock, wait=wait)
    before, waits = watched.read(), wait.calls
    assert 2 in before.silent
    assert before.awaited == {2}
    assert not any(row.automatable for row in before.rows)
    watched.read()
    assert wait.calls == waits
    clock.advance(20.0)
    after = watched.read()
    assert not after.awaited
    assert all(row.automatable for row in after.rows)


def test_a_bootstrap_broker_that_hangs_is_left_for_another_in_the_same_reading(
    cluster: FakeCluster, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.read()
    cluster.brokers[1].hung = True
    for limit in ("GREETING", "CONTROLLER", "KNOWN_BROKER", "ROLL_CALL"):
        monkeypatch.setattr(patience, limit, MOMENT)
    assert watched.read().rows


def test_another_cluster_at_the_same_addresses_is_refused(
    cluster: FakeCluster, watched: Watched
) -> None:
    watched.read()
    cluster.story.cluster_id = "another"
    with pytest.raises(WrongCluster):
        watched.read()


@pytest.mark.parametrize("again", [False, True])
def test_a_reading_that_waits_ends_without_an_error_when_the_watch_is_closed(
    cluster: FakeCluster, watched: Watched, again: bool
) -> None:
    """No limit ends the waits: a reading that outlives `close` would never end."""
    before = watched.read() if again else None
    waiting = threading.Event()
    for number in (1, 2):
        request = DescribeTopicPartitionsRequest if again else ListOffsetsRequest
        cluster.brokers[number].serve(request, lambda _: waiting.set())
    told: list[Incident] = []
    reading = threading.Thread(target=lambda: told.extend(watched.watch.read(before)), daemon=True)
    reading.start()
    assert waiting.wait(DEADLINE_SECONDS)
    watched.close()
    reading.join(DEADLINE_SECONDS)
    assert not reading.is_alive()
    assert [incident.judged for incident in told] in ([[]] if again else ([0], [0, 4]))
    assert list(watched.watch.read()) == []
