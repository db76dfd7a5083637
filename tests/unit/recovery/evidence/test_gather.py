"""Gathering from all brokers at once: whoever is dead, hung or late hides nobody else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from breakglass.services import patience
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import EpochHistory, Role, TopicPartition, Unknown, known
from breakglass.services.recovery.evidence.gather import Evidence, gather
from breakglass.services.recovery.evidence.group_bounds import GroupBounds
from tests.kit.fake_broker import Body
from tests.kit.fake_cluster import FakeCluster
from tests.kit.waiting import within

SETTLE, RECHECK = 0.8, 0.2
PATIENT = 10.0
"""A settling time for tests in which nobody is waited for."""
SLACK = 2.0
"""What a busy machine may add to a wait."""
ORDERS, LEDGER = TopicPartition("orders", 0), TopicPartition("ledger", 0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """Three brokers; `orders-0` on all of them, `ledger-0` on b1 and b2 alone."""
    monkeypatch.setattr(patience, "SETTLE", SETTLE)
    monkeypatch.setattr(patience, "RECHECK", RECHECK)
    with FakeCluster(3) as cluster:
        cluster.story.offline(ORDERS, (3, 1, 2), elr=(3,), last=(3,))
        cluster.story.offline(LEDGER, (2, 1))
        for broker, count in ((1, 100), (2, 70), (3, 110)):
            cluster.hold(broker, ORDERS, (0, count))
        for broker in (1, 2):
            cluster.hold(broker, LEDGER, (0, 5))
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[ReadClient]:
    with closing(cluster.client(1)) as client:
        yield client


class Gathered:
    """What was yielded, and after how many seconds."""

    def __init__(self, client: ReadClient, seconds: float) -> None:
        snapshot = client.snapshot(Deadline.after(10.0))
        began = time.monotonic()
        self.yielded: list[tuple[float, Evidence]] = []
        for evidence in gather(client, snapshot, snapshot.offline, Deadline.after(seconds)):
            self.yielded.append((time.monotonic() - began, evidence))

    @property
    def first(self) -> Evidence:
        return self.yielded[0][1]

    @property
    def last(self) -> Evidence:
        return self.yielded[-1][1]

    @property
    def seconds(self) -> list[float]:
        return [after for after, _ in self.yielded]


def ends(evidence: Evidence, partition: TopicPartition) -> list[int | None]:
    """The log ends of one partition, in the order of its assignment; None for unknown."""
    (found,) = [one for one in evidence.partitions if one.partition == partition]
    return [log.log_end if known(log.log_end) else None for log in found.replicas]


@pytest.fixture
def patient(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "SETTLE", PATIENT)


@pytest.mark.usefixtures("patient")
class TestAllAnswer:
    def test_everything_is_yielded_once_and_at_once(self, client: ReadClient) -> None:
        found = Gathered(client, 2 * PATIENT)
        assert len(found.yielded) == 1
        assert found.seconds[0] < PATIENT / 2
        assert ends(found.last, ORDERS) == [110, 100, 70]
        assert ends(found.last, LEDGER) == [5, 5]
        assert (found.last.silent, found.last.awaited) == ({}, frozenset())
        assert len(found.last.complete) == 2

    def test_each_replica_has_its_role_and_its_directory(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        (ledger, orders) = Gathered(client, 5.0).last.partitions
        assert [log.role for log in orders.replicas] == [Role.ELR, Role.STALE, Role.STALE]
        assert [log.log_dir_online for log in ledger.replicas] == [True, True]

    @pytest.mark.parametrize(
        ("fenced", "listed", "online"),
        [
            pytest.param(set(), (2,), False, id="live, and offline to the controller"),
            pytest.param(set(), (), None, id="live, and nobody says why it refuses"),
            pytest.param({2}, (2,), None, id="offline because it is fenced"),
        ],
    )
    def test_r21_the_controller_knows_the_failed_directory_of_a_replica_that_refuses(
        self,
        cluster: FakeCluster,
        client: ReadClient,
        fenced: set[int],
        listed: tuple[int, ...],
        online: bool | None,
    ) -> None:
        cluster.story.fenced = fenced
        del cluster.replicas[2, LEDGER]
        state = cluster.story.states[LEDGER]
        cluster.story.states[LEDGER] = replace(state, offline_replicas=listed)
        (ledger, _) = Gathered(client, 5.0).last.partitions
        found = ledger.replicas[0].log_dir_online
        assert (found if known(found) else None) is online

    def test_r11_the_highest_offset_known_from_elsewhere_bounds_the_unread(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.story.groups = {"billing": {ORDERS: 130}, "audit": {ORDERS: 20}}
        (_, orders) = Gathered(client, 5.0).last.partitions
        assert (orders.unread_floor, orders.unread_floor_source) == (130, "group billing")
        assert orders.group_offsets == {"billing": 130, "audit": 20}


def test_late_brokers_are_judged_together_by_a_reader_who_takes_time(
    cluster: FakeCluster, client: ReadClient
) -> None:
    """Each would have every partition judged anew."""
    late = {broker: threading.Event() for broker in (1, 2, 3)}
    for broker, told in late.items():
        hold_back(cluster, broker, told)
    snapshot = client.snapshot(Deadline.after(10.0))
    silent = []
    for evidence in gather(client, snapshot, snapshot.offline, Deadline.after(10.0)):
        silent.append(set(evidence.silent))
        if len(silent) == 1:
            late[1].set()
            time.sleep(SETTLE)
            threading.Timer(SETTLE / 8, late[2].set).start()
            threading.Timer(SETTLE / 4, late[3].set).start()
    assert silent == [{1, 2, 3}, set()]


def hold_back(cluster: FakeCluster, broker: int, told: threading.Event) -> None:
    """Let *broker* tell no offset before *told* is set."""
    answer = cluster.apis(broker)[ListOffsetsRequest]

    def late(request: Any) -> Any:
        assert told.wait(PATIENT)
        return answer(request)

    cluster.brokers[broker].serve(ListOffsetsRequest, late)


class TestSilence:
    def test_a_hung_broker_hides_nobody_and_is_named_when_time_is_up(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.brokers[2].hung = True
        found = Gathered(client, 1.5)
        assert found.seconds[0] < SETTLE + within(SLACK)
        assert ends(found.first, ORDERS) == [110, 100, None]
        assert found.first.awaited == {2}
        assert found.seconds[-1] < 1.5 + within(SLACK)
        assert found.last.awaited == frozenset()
        assert found.last.silent[2].startswith("b2 does not answer")
        (ledger, _) = found.last.partitions
        log_end = ledger.replicas[0].log_end
        assert isinstance(log_end, Unknown)
        assert log_end.reason == found.last.silent[2]
        assert not ledger.replicas[0].reachable

    def test_r15_what_waits_for_nobody_is_complete_while_others_wait(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.brokers[3].hung = True
        found = Gathered(client, 1.0)
        assert [evidence.partition for evidence in found.first.complete] == [LEDGER]
        assert len(found.last.complete) == 2

    @pytest.mark.usefixtures("patient")
    def test_a_dead_broker_that_is_fenced_is_not_waited_for(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.story.fenced = {3}
        cluster.brokers[3].stop()
        found = Gathered(client, 2 * PATIENT)
        assert len(found.yielded) == 1
        assert found.seconds[0] < PATIENT / 2
        assert found.last.silent == {3: "b3 does not answer (connection refused)"}

    def test_a_hung_broker_that_is_fenced_costs_the_settling_time(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.story.fenced = {3}
        cluster.brokers[3].hung = True
        found = Gathered(client, 10.0)
        assert found.seconds[-1] < SETTLE + within(SLACK)
        assert ends(found.last, ORDERS) == [None, 100, 70]

    def test_a_broker_fenced_meanwhile_is_waited_for_no_longer(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.brokers[3].hung = True
        snapshot = client.snapshot(Deadline.after(10.0))
        began = time.monotonic()
        evidence = gather(client, snapshot, snapshot.offline, Deadline.after(20.0))
        assert next(evidence).awaited == {3}
        cluster.story.fenced = {3}
        (last,) = list(evidence)
        assert last.awaited == frozenset()
        assert time.monotonic() - began < SETTLE + RECHECK + within(2 * SLACK)
        orders = last.partitions[1]
        assert orders.replicas[0].fenced is True

    def test_r16_a_broker_that_is_dead_but_unfenced_is_tried_until_time_is_up(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.brokers[3].stop()
        found = Gathered(client, within(1.0))
        assert found.seconds[-1] >= 0.8
        (_, orders) = found.last.partitions
        assert (orders.replicas[0].reachable, orders.replicas[0].fenced) == (False, False)
        assert "connection refused" in found.last.silent[3]

    def test_a_broker_that_answers_late_is_yielded_when_it_does(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        ready = Deadline.after(SETTLE + 0.5)
        answer = cluster.apis(2)[ListOffsetsRequest]
        cluster.brokers[2].serve(ListOffsetsRequest, late(answer, ready))
        found = Gathered(client, 10.0)
        assert ends(found.first, LEDGER) == [None, 5]
        assert ends(found.last, LEDGER) == [5, 5]
        assert found.last.silent == {}
        assert found.seconds[-1] < SETTLE + 0.5 + within(SLACK)

    @pytest.mark.parametrize("body", [b"\xff" * 40, b"", b"\0\0\0\0\0\0\0\x09"])
    def test_a_broker_that_answers_nonsense_hides_nobody(
        self, cluster: FakeCluster, client: ReadClient, body: bytes
    ) -> None:
        cluster.brokers[2].serve(ListOffsetsRequest, lambda _: Body(body))
        found = Gathered(client, 1.0)
        assert ends(found.last, ORDERS)[:2] == [110, 100]
        assert set(found.last.silent) == {2}


@pytest.mark.usefixtures("patient")
class TestHistories:
    def test_histories_are_read_back_until_neighbours_share_an_epoch(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        """Each alone wrote more epochs than are read at first; they parted in epoch 0."""
        cluster.hold(1, LEDGER, (0, 10), *((epoch, 1) for epoch in range(1, 41, 2)))
        cluster.hold(2, LEDGER, (0, 10), *((epoch, 1) for epoch in range(2, 42, 2)))
        (ledger, _) = Gathered(client, 5.0).last.partitions
        first_epochs = [history(log.epochs).ranges[0].epoch for log in ledger.replicas]
        assert first_epochs == [0, 0]

    def test_they_are_not_read_back_where_the_newest_are_shared(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        for broker in (1, 2):
            cluster.hold(broker, LEDGER, *((epoch, 1) for epoch in range(40)))
        (ledger, _) = Gathered(client, 5.0).last.partitions
        assert [len(history(log.epochs).ranges) for log in ledger.replicas] == [8, 8]
        assert len(cluster.brokers[2].requests(FetchRequest)) == 9


def history(epochs: EpochHistory | Unknown) -> EpochHistory:
    assert known(epochs)
    return epochs


def late(answer: Callable[[object], object], ready: Deadline) -> Callable[[object], object]:
    """*answer*, not before *ready*."""

    def respond(request: object) -> object:
        time.sleep(ready.remaining())
        return answer(request)

    return respond


def test_a_broker_that_was_silent_in_an_earlier_go_is_not_asked_nor_waited_for(
    cluster: FakeCluster, client: ReadClient
) -> None:
    cluster.brokers[3].hung = True
    snapshot = client.snapshot(Deadline.after(10.0))
    before, asked = time.monotonic(), cluster.brokers[3].frames
    reason = "b3 does not answer (timed out)"
    (only,) = gather(
        client, snapshot, snapshot.offline, Deadline.after(PATIENT), unasked={3: reason}
    )
    assert time.monotonic() - before < SETTLE
    assert ends(only, ORDERS) == [None, 100, 70]
    assert (only.silent, only.awaited) == ({3: reason}, frozenset())
    assert cluster.brokers[3].frames == asked


def test_groups_are_asked_once_for_several_goes(cluster: FakeCluster, client: ReadClient) -> None:
    cluster.story.groups = {"billing": {ORDERS: 90, LEDGER: 4}}
    snapshot = client.snapshot(Deadline.after(10.0))
    soon = Deadline.after(PATIENT)
    groups = GroupBounds(client, snapshot, [ORDERS, LEDGER], soon)
    groups.start()
    groups.wait(soon)
    committed = []
    for state in snapshot.offline:
        *_, last = gather(client, snapshot, [state], soon, groups=groups)
        committed += [
            dict(partition.group_offsets)
            for partition in last.partitions
            if known(partition.group_offsets)
        ]
    assert committed == [{"billing": 4}, {"billing": 90}]
    assert len(cluster.brokers[1].requests(ListGroupsRequest)) == 1
