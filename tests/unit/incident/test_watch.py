"""A cluster that is watched: what changed is read again, what did not stays, nothing hangs."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from kafka.protocol.admin import (
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from breakglass.services import patience
from breakglass.services.errors import Unreachable, WrongCluster
from breakglass.services.incident import changes, watch
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.row import IncidentRow
from breakglass.services.kafka.replicas.list_offsets import PAST_EVERY_LOG
from breakglass.services.model import LogContents, TopicPartition, Unknown
from breakglass.services.recovery.judgement.assessment import Verdict
from tests.kit.clock import Clock
from tests.kit.deadlines import MOMENT
from tests.kit.fake_broker import Body, HangUp
from tests.kit.fake_cluster import FakeCluster, partitions_of
from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.unit.incident.conftest import Session, Watched
from tests.unit.recovery.evidence.conftest import AfterAnswers

ORDERS = partitions_of("orders", 4)
OFFSETS = TopicPartition("__consumer_offsets", 0)
ALL = 1_000
"""More reports than there are."""


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


def test_rows_are_told_at_once_from_metadata_alone_and_then_judged(watched: Watched) -> None:
    first, *_, final = watched.told()
    assert [(row.partition, row.verdict) for row in first.rows] == [(one, None) for one in ORDERS]
    assert [row.verdict for row in final.rows] == [Verdict.WAIT] * 4
    assert final.complete
    found = final.assessment(ORDERS[1])
    assert found is not None
    assert (str(found.action), found.designee) == ("start b3", 1)
    assert [log.log_end for log in found.evidence.replicas[1:]] == [100, 70]


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


def test_what_takes_too_long_is_left_to_the_next_reading(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "FIRST_GO", 1)
    monkeypatch.setattr(changes, "GO", 1)
    clock = Clock()
    watched = session(clock=clock)
    judged = []
    for _ in range(5):
        for told in watched.watch.read(watched.incident):
            clock.advance(watch.READING_SECONDS)
            watched.incident = told
        judged.append(told.judged)
    assert judged == [1, 2, 3, 4, 4]


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


def test_a_partition_that_is_led_again_is_gone_and_a_new_one_is_there(
    cluster: FakeCluster, watched: Watched
) -> None:
    watched.read()
    change(cluster, ORDERS[0], leader=1)
    cluster.story.offline(OFFSETS, (1, 2))
    cluster.hold(1, OFFSETS, (0, 5))
    cluster.hold(2, OFFSETS, (0, 5))
    first, *_, final = watched.told()
    assert [row.partition for row in first.rows] == [OFFSETS, *ORDERS[1:]]
    assert (first.rows[0].verdict, final.rows[0].verdict) == (None, Verdict.SAFE)


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


def test_a_broker_that_answers_again_is_read_by_itself(
    cluster: FakeCluster, session: Session
) -> None:
    cluster.brokers[2].hung = True
    wait = AfterAnswers(2)
    watched = session(wait=wait)
    before = watched.read()
    assert before.silent.keys() == {2, 3}
    assert {row.heard for row in before.rows} == {(1, 3)}
    cluster.brokers[2].hung, wait.count = False, ALL
    cluster.brokers[2].drop_connections()
    wait_until(lambda: watched.read().silent.keys() == {3}, "b2 among those that answer")
    assert {row.heard for row in watched.read().rows} == {(2, 3)}
    assert watched.read().complete


def test_a_broker_that_greets_and_then_fails_is_left_alone_for_a_while(
    cluster: FakeCluster, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "FIRST_PAUSE_SECONDS", 30.0)
    cluster.brokers[2].serve(ListOffsetsRequest, lambda _: Body(b"no answer"))
    watched = session(clock=Clock())
    watched.read()
    requests = len(asked(cluster, 2))
    for _ in range(3):
        assert watched.read().silent.keys() == {2, 3}
    assert len(asked(cluster, 2)) == requests


def test_a_reading_that_fails_is_an_error_and_the_next_one_heals(
    cluster: FakeCluster, watched: Watched
) -> None:
    def hang_up(_: object) -> None:
        raise HangUp

    before, served = watched.read(), {}
    for number in (1, 2):
        served[number] = cluster.apis(number)[DescribeTopicPartitionsRequest]
        cluster.brokers[number].serve(DescribeTopicPartitionsRequest, hang_up)
    with pytest.raises(Unreachable):
        watched.read()
    for number, answer in served.items():
        cluster.brokers[number].serve(DescribeTopicPartitionsRequest, answer)
    assert watched.read().rows is before.rows


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


def test_rows_that_are_judged_again_are_left_at_once_when_the_watch_is_closed(
    cluster: FakeCluster, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = watched.read()
    again: list[IncidentRow] = []

    def judged_once(row: IncidentRow, *_: object) -> IncidentRow:
        again.append(row)
        watched.close()
        return row

    monkeypatch.setattr(watch, "judged_again", judged_once)
    cluster.story.quorum_leader = -1
    assert list(watched.watch.read(before)) == []
    assert len(again) == 1
    asked_before = len(cluster.brokers[1].requests(DescribeQuorumRequest))
    assert list(watched.watch.read()) == []
    assert len(cluster.brokers[1].requests(DescribeQuorumRequest)) == asked_before


def contents_asked(cluster: FakeCluster) -> list[TopicPartition]:
    """The partitions whose records b1 was asked for, in any request so far."""
    return [
        TopicPartition(topic.topic, partition.partition)
        for request in cluster.brokers[1].requests(FetchRequest)
        for topic in request.topics
        for partition in topic.partitions
        if partition.fetch_offset != PAST_EVERY_LOG
    ]


def contents_of(incident: Incident, partition: TopicPartition) -> LogContents | Unknown:
    """What b1 holds in *partition*."""
    row = incident.row(partition)
    assert row is not None
    assert row.evidence is not None
    replica = row.evidence.replica(1)
    assert replica is not None
    return replica.contents


def test_rows_are_told_before_contents_are_read_and_again_after(
    cluster: FakeCluster, watched: Watched
) -> None:
    cluster.replicas[1, ORDERS[0]].corrupt_at = 40
    watched.watch.declare_gone([3])
    told = [
        (incident.row(ORDERS[0]).designee, len(contents_asked(cluster)))  # type: ignore[union-attr]
        for incident in watched.watch.read()
        if incident.judged == len(ORDERS)
    ]
    assert (told[0], told[-1][0]) == ((1, 0), 2)


def test_a_log_is_read_again_once_it_became_another(cluster: FakeCluster, watched: Watched) -> None:
    same = LogContents(0, 100, bytes_read=161)
    assert contents_of(watched.read(), ORDERS[1]) == same
    before = contents_asked(cluster)
    assert contents_of(watched.read(everything=True), ORDERS[1]) == same
    assert contents_asked(cluster) == before
    cluster.hold(1, ORDERS[1], (0, 90))
    told = watched.told(everything=True)
    shown = [
        contents_of(incident, ORDERS[1])
        for incident in told
        if (row := incident.row(ORDERS[1])) and row.log_end == 90
    ]
    assert isinstance(shown[0], Unknown), "it is shown before it is read"
    assert contents_asked(cluster)[len(before) :] == [ORDERS[1]]
    assert shown[-1] == LogContents(0, 90, bytes_read=151)
