"""A cluster that is watched: what changed is read again, what did not stays, nothing hangs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from kafka.protocol.admin import (
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from breakglass.services import patience
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.errors import Unreachable, WrongCluster
from breakglass.services.incident import broker_liveness, changes, watch
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.row import IncidentRow
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.kafka.replicas.epoch_ends import PAST_EVERY_LOG
from breakglass.services.model import LogContents, TopicPartition, Unknown
from breakglass.services.recovery.evidence.contents import OFF
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.session import Effort, ReadAccess
from tests.kit.clock import Clock
from tests.kit.deadlines import MOMENT, endless
from tests.kit.fake_broker import Body, HangUp
from tests.kit.fake_cluster import FakeCluster, partitions_of
from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.unit.recovery.evidence.conftest import AfterAnswers

ORDERS = partitions_of("orders", 4)
OFFSETS = TopicPartition("__consumer_offsets", 0)
ALL = 1_000
"""More reports than there are."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """Four partitions of `orders` whose last leader, b3, is fenced and dead."""
    endless(monkeypatch)
    monkeypatch.setattr(broker_liveness, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(watch, "METADATA_SHARE", 1.0)
    with FakeCluster(3) as cluster:
        for order in ORDERS:
            cluster.story.offline(order, (3, 1, 2), elr=(3,))
            for broker, records in ((1, 100), (2, 70), (3, 110)):
                cluster.hold(broker, order, (0, records))
        cluster.story.fenced = {3}
        cluster.brokers[3].stop()
        yield cluster


@pytest.fixture
def watched(cluster: FakeCluster) -> Iterator[IncidentWatch]:
    with closing(watch_of(cluster)) as watched:
        yield watched


def watch_of(cluster: FakeCluster, **options: object) -> IncidentWatch:
    settings = ConnectionSettings((cluster.brokers[1].endpoint, cluster.brokers[2].endpoint))
    return IncidentWatch(ReadAccess(settings, contents=Effort.FULL), **options)  # type: ignore[arg-type]


def last(
    watched: IncidentWatch, before: Incident | None = None, *, everything: bool = False
) -> Incident:
    *_, incident = watched.read(before, everything=everything)
    return incident


def asked(cluster: FakeCluster, broker: int = 1) -> list[TopicPartition]:
    """The partitions whose log end *broker* was asked for, in any request so far."""
    return [
        TopicPartition(topic.name, partition.partition_index)
        for request in cluster.brokers[broker].requests(ListOffsetsRequest)
        for topic in request.topics
        for partition in topic.partitions
    ]


class TestWhatIsTold:
    def test_rows_are_told_at_once_from_metadata_alone_and_then_judged(
        self, watched: IncidentWatch
    ) -> None:
        first, *_, final = watched.read()
        assert [(row.partition, row.verdict) for row in first.rows] == [
            (order, None) for order in ORDERS
        ]
        assert [row.verdict for row in final.rows] == [Verdict.WAIT] * 4
        assert final.complete

    def test_the_evidence_of_a_row_is_thawed_and_judged_when_asked_for(
        self, watched: IncidentWatch
    ) -> None:
        found = last(watched).assessment(ORDERS[1])
        assert found is not None
        assert (str(found.action), found.designee) == ("start b3", 1)
        assert [log.log_end for log in found.evidence.replicas[1:]] == [100, 70]

    def test_many_are_read_in_goes_and_groups_are_asked_once(
        self, cluster: FakeCluster, watched: IncidentWatch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(changes, "FIRST_GO", 1)
        monkeypatch.setattr(changes, "GO", 2)
        monkeypatch.setattr(watch, "TELL_SECONDS", 0.0)
        told = [incident.judged for incident in watched.read()]
        assert told == [0, 1, 1, 3, 3, 4, 4, 4]
        assert len(cluster.brokers[1].requests(ListGroupsRequest)) == 1

    def test_internal_topics_are_read_first(
        self, cluster: FakeCluster, watched: IncidentWatch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(changes, "FIRST_GO", 1)
        cluster.story.offline(OFFSETS, (3, 1, 2), elr=(3,))
        last(watched)
        assert asked(cluster)[0] == OFFSETS

    def test_what_takes_too_long_is_left_to_the_next_reading(
        self, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(changes, "FIRST_GO", 1)
        monkeypatch.setattr(changes, "GO", 1)
        clock = Clock()
        before, judged = None, []
        with closing(watch_of(cluster, clock=clock)) as watched:
            for _ in range(5):
                for told in watched.read(before):
                    clock.advance(watch.READING_SECONDS)
                    before = told
                assert before is not None
                judged.append(before.judged)
        assert judged == [1, 2, 3, 4, 4]


class TestWhatIsReadAgain:
    def test_while_nothing_changes_no_replica_is_read_and_rows_are_the_same(
        self, cluster: FakeCluster, watched: IncidentWatch
    ) -> None:
        before = last(watched)
        requests = len(asked(cluster))
        (again,) = watched.read(before)
        assert again.rows is before.rows
        assert again.tally is before.tally
        assert again.read_at_ms >= before.read_at_ms
        assert len(asked(cluster)) == requests

    def test_only_the_partition_that_changed_is_read(
        self, cluster: FakeCluster, watched: IncidentWatch
    ) -> None:
        before = last(watched)
        requests = len(asked(cluster))
        changed = ORDERS[2]
        cluster.story.states[changed] = replace(cluster.story.states[changed], leader_epoch=6)
        cluster.hold(1, changed, (0, 130))
        after = last(watched, before)
        assert set(asked(cluster)[requests:]) == {changed}
        assert [row.log_end for row in after.rows] == [100, 100, 130, 100]
        assert [old is new for old, new in zip(before.rows, after.rows, strict=True)] == [
            True, True, False, True,
        ]  # fmt: skip

    def test_everything_is_read_again_when_asked_for(
        self, cluster: FakeCluster, watched: IncidentWatch
    ) -> None:
        before = last(watched)
        cluster.hold(1, ORDERS[0], (0, 500))
        assert last(watched, before).rows[0].log_end == 100
        assert last(watched, before, everything=True).rows[0].log_end == 500

    def test_everything_is_read_again_after_a_while(self, cluster: FakeCluster) -> None:
        clock = Clock()
        with closing(watch_of(cluster, clock=clock)) as watched:
            before = last(watched)
            cluster.hold(1, ORDERS[0], (0, 500))
            clock.advance(changes.EVERYTHING_SECONDS)
            assert last(watched, before).rows[0].log_end == 500

    def test_a_partition_that_is_led_again_is_gone_and_a_new_one_is_there(
        self, cluster: FakeCluster, watched: IncidentWatch
    ) -> None:
        before = last(watched)
        cluster.story.states[ORDERS[0]] = replace(cluster.story.states[ORDERS[0]], leader=1)
        cluster.story.offline(OFFSETS, (1, 2))
        cluster.hold(1, OFFSETS, (0, 5))
        cluster.hold(2, OFFSETS, (0, 5))
        first, *_, final = watched.read(before)
        assert [row.partition for row in first.rows] == [OFFSETS, *ORDERS[1:]]
        assert first.rows[0].verdict is None
        assert final.rows[0].verdict is Verdict.SAFE

    def test_a_replica_that_falls_silent_is_remembered_while_nobody_leads(
        self, cluster: FakeCluster
    ) -> None:
        with closing(watch_of(cluster, gone=[3])) as watched:
            before = last(watched)
            cluster.story.fenced = {2, 3}
            cluster.brokers[2].stop()
            silent = last(watched, before)
            assert [str(row.action) for row in silent.rows] == ["elect b1"] * 4
            assert [row.unread for row in silent.rows] == [(3, 2)] * 4
            again = last(watched, silent, everything=True)
            assert [row.judged for row in again.rows] == [row.judged for row in silent.rows]
            for order in ORDERS:
                state = cluster.story.states[order]
                cluster.story.states[order] = replace(state, leader_epoch=state.leader_epoch + 2)
            led_since = last(watched, again)
        assert [str(row.action) for row in led_since.rows] == ["start b2"] * 4

    def test_a_quorum_that_is_lost_changes_verdicts_without_a_replica_being_read(
        self, cluster: FakeCluster, watched: IncidentWatch
    ) -> None:
        before = last(watched)
        requests = len(asked(cluster))
        cluster.story.quorum_leader = -1
        (after,) = watched.read(before)
        assert {str(row.action) for row in after.rows} == {"no quorum"}
        assert len(asked(cluster)) == requests
        cluster.story.quorum_leader = 101
        assert {row.verdict for row in last(watched, after).rows} == {Verdict.WAIT}


class TestWhoIsSilent:
    def test_a_hung_broker_is_named_and_awaited_and_costs_one_short_wait(
        self, cluster: FakeCluster
    ) -> None:
        cluster.brokers[2].hung = True
        wait = AfterAnswers(2)
        with closing(watch_of(cluster, wait=wait)) as watched:
            before = last(watched)
            assert before.silent.keys() == {2, 3}
            assert before.awaited == {2}
            assert {row.heard for row in before.rows} == {(1, 3)}
            waits = wait.calls
            last(watched, before)
        assert wait.calls == waits

    def test_after_its_time_it_is_not_awaited_any_more_and_rows_are_judged_anew(
        self, cluster: FakeCluster
    ) -> None:
        for order in ORDERS:
            state = cluster.story.states[order]
            cluster.story.states[order] = replace(state, elr=(), assignment=(1, 2))
        cluster.brokers[2].hung = True
        clock = Clock()
        with closing(
            watch_of(cluster, duration=20.0, clock=clock, wait=AfterAnswers(1))
        ) as watched:
            before = last(watched)
            assert before.awaited == {2}
            assert not any(row.automatable for row in before.rows)
            clock.advance(20.0)
            after = last(watched, before)
        assert not after.awaited
        assert all(row.automatable for row in after.rows)

    def test_a_broker_that_answers_again_is_read_by_itself(self, cluster: FakeCluster) -> None:
        cluster.brokers[2].hung = True
        wait = AfterAnswers(2)
        with closing(watch_of(cluster, wait=wait)) as watched:
            incident = last(watched)
            cluster.brokers[2].hung, wait.count = False, ALL
            cluster.brokers[2].drop_connections()

            def back() -> bool:
                nonlocal incident
                incident = last(watched, incident)
                return incident.silent.keys() == {3}

            wait_until(back, "b2 among those that answer")
        assert {row.heard for row in incident.rows} == {(2, 3)}
        assert incident.complete

    def test_a_broker_that_greets_and_then_fails_is_left_alone_for_a_while(
        self, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(broker_liveness, "FIRST_PAUSE_SECONDS", 30.0)
        cluster.brokers[2].serve(ListOffsetsRequest, lambda _: Body(b"no answer"))
        with closing(watch_of(cluster, clock=Clock())) as watched:
            incident = last(watched)
            requests = len(asked(cluster, 2))
            for _ in range(3):
                incident = last(watched, incident)
                assert incident.silent.keys() == {2, 3}
        assert len(asked(cluster, 2)) == requests


class TestFailures:
    def test_a_reading_that_fails_is_an_error_and_the_next_one_heals(
        self, cluster: FakeCluster, watched: IncidentWatch
    ) -> None:
        before = last(watched)

        def hang_up(_: object) -> None:
            raise HangUp

        served = {}
        for number in (1, 2):
            broker = cluster.brokers[number]
            served[number] = cluster.apis(number)[DescribeTopicPartitionsRequest]
            broker.serve(DescribeTopicPartitionsRequest, hang_up)
        with pytest.raises(Unreachable):
            last(watched, before)
        for number, answer in served.items():
            cluster.brokers[number].serve(DescribeTopicPartitionsRequest, answer)
        assert last(watched, before).rows is before.rows

    def test_a_bootstrap_broker_that_hangs_is_left_for_another_in_the_same_reading(
        self, cluster: FakeCluster, watched: IncidentWatch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = last(watched)
        cluster.brokers[1].hung = True
        for limit in ("GREETING", "CONTROLLER", "KNOWN_BROKER", "ROLL_CALL"):
            monkeypatch.setattr(patience, limit, MOMENT)
        assert last(watched, before).rows

    def test_another_cluster_at_the_same_addresses_is_refused(
        self, cluster: FakeCluster, watched: IncidentWatch
    ) -> None:
        before = last(watched)
        cluster.story.cluster_id = "another"
        with pytest.raises(WrongCluster):
            last(watched, before)


class TestClosing:
    """No limit ends these waits: a reading that outlives `close` would never end."""

    def closed_while(
        self, watched: IncidentWatch, waiting: threading.Event, before: Incident | None = None
    ) -> list[Incident]:
        """What a reading tells that is closed once it is *waiting*."""
        told: list[Incident] = []
        reading = threading.Thread(target=lambda: told.extend(watched.read(before)), daemon=True)
        reading.start()
        assert waiting.wait(DEADLINE_SECONDS)
        watched.close()
        reading.join(DEADLINE_SECONDS)
        assert not reading.is_alive()
        return told

    def test_a_reading_that_waits_ends_without_an_error(
        self, cluster: FakeCluster, watched: IncidentWatch
    ) -> None:
        before, waiting = last(watched), threading.Event()
        for number in (1, 2):
            cluster.brokers[number].serve(DescribeTopicPartitionsRequest, lambda _: waiting.set())
        assert self.closed_while(watched, waiting, before) == []

    def test_a_reading_of_replicas_ends(self, cluster: FakeCluster, watched: IncidentWatch) -> None:
        waiting = threading.Event()
        cluster.brokers[2].serve(ListOffsetsRequest, lambda _: waiting.set())
        told = self.closed_while(watched, waiting)
        assert [incident.judged for incident in told] in ([0], [0, 4])

    def test_rows_that_are_judged_again_are_left_at_once(
        self, cluster: FakeCluster, watched: IncidentWatch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = last(watched)
        again: list[IncidentRow] = []

        def judged_once(row: IncidentRow, *_: object) -> IncidentRow:
            again.append(row)
            watched.close()
            return row

        monkeypatch.setattr(watch, "judged_again", judged_once)
        cluster.story.quorum_leader = -1
        assert list(watched.read(before)) == []
        assert len(again) == 1

    def test_a_watch_that_is_closed_tells_nothing(
        self, cluster: FakeCluster, watched: IncidentWatch
    ) -> None:
        watched.close()
        assert list(watched.read()) == []
        assert cluster.brokers[1].requests(DescribeQuorumRequest) == []


def contents_asked(cluster: FakeCluster, broker: int = 1) -> list[TopicPartition]:
    """The partitions whose records *broker* was asked for, in any request so far."""
    return [
        TopicPartition(topic.topic, partition.partition)
        for request in cluster.brokers[broker].requests(FetchRequest)
        for topic in request.topics
        for partition in topic.partitions
        if partition.fetch_offset != PAST_EVERY_LOG
    ]


def contents_of(
    incident: Incident, partition: TopicPartition, broker: int
) -> LogContents | Unknown:
    row = incident.row(partition)
    assert row is not None
    assert row.evidence is not None
    replica = row.evidence.replica(broker)
    assert replica is not None
    return replica.contents


class TestContents:
    def test_rows_are_told_before_contents_are_read_and_again_after(
        self, cluster: FakeCluster, watched: IncidentWatch
    ) -> None:
        cluster.replicas[1, ORDERS[0]].corrupt_at = 40
        watched.declare_gone([3])
        told = [
            (incident.row(ORDERS[0]).designee, len(contents_asked(cluster)))  # type: ignore[union-attr]
            for incident in watched.read()
            if incident.judged == len(ORDERS)
        ]
        assert (told[0], told[-1][0]) == ((1, 0), 2)

    def test_a_log_that_stays_as_it_is_is_not_read_again(
        self, cluster: FakeCluster, watched: IncidentWatch
    ) -> None:
        before = last(watched)
        assert contents_of(before, ORDERS[1], 1) == LogContents(0, 100, bytes_read=161)
        asked_before = contents_asked(cluster)
        after = last(watched, before, everything=True)
        assert contents_asked(cluster) == asked_before
        assert contents_of(after, ORDERS[1], 1) == LogContents(0, 100, bytes_read=161)

    def test_a_log_that_became_another_is_read_again(
        self, cluster: FakeCluster, watched: IncidentWatch
    ) -> None:
        before = last(watched)
        cluster.hold(1, ORDERS[1], (0, 90))
        asked_before = len(contents_asked(cluster))
        told = list(watched.read(before, everything=True))
        shown = [
            contents_of(incident, ORDERS[1], 1)
            for incident in told
            if (row := incident.row(ORDERS[1])) and row.log_end == 90
        ]
        assert isinstance(shown[0], Unknown), "it is shown before it is read"
        after = told[-1]
        assert contents_asked(cluster)[asked_before:] == [ORDERS[1]]
        assert contents_of(after, ORDERS[1], 1) == LogContents(0, 90, bytes_read=151)

    def test_a_console_that_is_told_to_read_none_says_so(self, cluster: FakeCluster) -> None:
        settings = ConnectionSettings((cluster.brokers[1].endpoint,))
        with closing(IncidentWatch(ReadAccess(settings, contents=Effort.OFF))) as watched:
            told = contents_of(last(watched), ORDERS[0], 1)
        assert told == OFF
        assert contents_asked(cluster) == []
