"""Gathering from all brokers at once: whoever is dead, hung or late hides nobody else."""

import queue
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from kafka.protocol.admin import DescribeTopicPartitionsRequest
from kafka.protocol.consumer import ListOffsetsRequest

from breakglass.services import patience
from breakglass.services.errors import TimedOut
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import (
    EpochHistory,
    PartitionEvidence,
    ReplicaLog,
    TopicPartition,
    Unknown,
    known,
)
from breakglass.services.recovery.evidence.gather import (
    Evidence,
    gather,
    merged,
    without_common_epoch,
)
from tests.kit.clock import Clock
from tests.kit.deadlines import HOUR, DeadlineByHand
from tests.kit.fake_broker import Body, HangUp
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import COORDINATOR
from tests.kit.waiting import wait_until
from tests.unit.recovery.evidence.conftest import AfterAnswers, soon
from tests.unit.recovery.histories import with_recent_epochs
from tests.unit.recovery.replicas import log, offline, silent, without_epochs

T = TypeVar("T")
ORDERS, LEDGER = TopicPartition("orders", 0), TopicPartition("ledger", 0)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Three brokers; `orders-0` on all of them, `ledger-0` on b1 and b2 alone."""
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


def gathering(
    client: ReadClient, deadline: Deadline | None = None, **more: Any
) -> Iterator[Evidence]:
    """What is gathered of all that is offline; without *more* no silence ends a wait."""
    snapshot = client.snapshot(soon())
    return gather(client, snapshot, snapshot.offline, deadline or soon(), **more)


def only(client: ReadClient, **more: Any) -> Evidence:
    """What is gathered where all is yielded at once."""
    (found,) = gathering(client, **more)
    return found


def replicas(evidence: Evidence, partition: TopicPartition) -> tuple[ReplicaLog, ...]:
    (found,) = [one for one in evidence.partitions if one.partition == partition]
    return found.replicas


def ends(evidence: Evidence, partition: TopicPartition) -> list[int | None]:
    """The log ends of one partition, in the order of its assignment; None for unknown."""
    return [log.log_end if known(log.log_end) else None for log in replicas(evidence, partition)]


def test_s50_log_directories_that_no_broker_tells_cost_no_replica(
    client: ReadClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have half of the time, so that what was read before is reported within it."""
    clock, given = Clock(), list[float]()

    def untold(_: ReadClient, broker: int, __: object, deadline: Deadline) -> None:
        given.append(deadline.remaining())
        raise TimedOut(f"b{broker} did not answer in time")

    monkeypatch.setattr(ReadClient, "log_dirs", untold)
    found = only(client, deadline=Deadline.after(HOUR, clock))
    assert given == 3 * [patience.ONE_BROKER / 2]
    assert ends(found, ORDERS) == [110, 100, 70]


class TestAllAnswer:
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
        found = replicas(only(client), LEDGER)[0].log_dir_online
        assert (found if known(found) else None) is online

    def test_r11_the_highest_offset_known_from_elsewhere_bounds_the_unread(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.story.groups = {"billing": {ORDERS: 130}, "audit": {ORDERS: 20}}
        (_, orders) = only(client).partitions
        assert (orders.unread_floor, orders.unread_floor_source) == (130, "group billing")
        assert orders.group_offsets == {"billing": 130, "audit": 20}


class TestSilence:
    def test_a_hung_broker_hides_nobody_and_is_named_when_time_is_up(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.brokers[2].hung = True
        deadline = DeadlineByHand.after(HOUR)
        assert isinstance(deadline, DeadlineByHand)
        evidence = gathering(client, deadline, wait=AfterAnswers(2))
        first = next(evidence)
        assert ends(first, ORDERS) == [110, 100, None]
        assert first.awaited == {2}
        deadline.up.set()
        (last,) = evidence
        assert (last.awaited, set(last.silent)) == (frozenset[int](), {2})
        hung = replicas(last, LEDGER)[0]
        assert (hung.log_end.reason, hung.reachable) == (last.silent[2], False)  # type: ignore[union-attr]

    def test_r15_what_waits_for_nobody_is_complete_while_others_wait(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.brokers[3].hung = True
        first, last = gathering(
            client, wait=AfterAnswers(2), stop=iter([False, True, True]).__next__
        )
        assert [evidence.partition for evidence in first.complete] == [LEDGER]
        assert len(last.complete) == 2

    def test_a_hung_broker_that_is_fenced_costs_the_settling_time(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.story.fenced = {3}
        cluster.brokers[3].hung = True
        assert ends(only(client, wait=AfterAnswers(2)), ORDERS) == [None, 100, 70]

    def test_a_broker_fenced_meanwhile_is_not_waited_for_from_then_on(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.brokers[3].hung = True
        evidence = gathering(client, wait=AfterAnswers(2))
        assert next(evidence).awaited == {3}
        cluster.story.fenced = {3}
        (last,) = evidence
        assert last.awaited == frozenset()
        assert replicas(last, ORDERS)[0].fenced is True

    def test_r16_a_broker_that_fails_but_is_unfenced_is_tried_until_time_is_up(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        def hang_up(_: Any) -> None:
            raise HangUp

        cluster.brokers[3].serve(ListOffsetsRequest, hang_up)
        deadline = DeadlineByHand.after(HOUR)
        assert isinstance(deadline, DeadlineByHand)
        evidence = gathering(client, deadline, wait=AfterAnswers(2))
        assert next(evidence).awaited == {3}
        asked = cluster.brokers[3].requests
        wait_until(lambda: len(asked(ListOffsetsRequest)) > 1, "another try")
        deadline.up.set()
        (last,) = evidence
        failed = replicas(last, ORDERS)[0]
        assert (failed.reachable, failed.fenced, set(last.silent)) == (False, False, {3})

    def test_r25_a_broker_that_is_unfenced_while_another_is_awaited_is_asked_again(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        def hang_up(_: Any) -> None:
            raise HangUp

        def look(reports: queue.SimpleQueue[T], _: Deadline, /) -> T:
            return reports.get(timeout=0.02)

        back, answer = cluster.brokers[3], cluster.apis(3)[ListOffsetsRequest]
        looks = iter(range(2_000))
        back.serve(ListOffsetsRequest, hang_up)
        cluster.story.fenced, cluster.brokers[2].hung = {3}, True
        evidence = gathering(client, wait=look, stop=lambda: next(looks, None) is None)
        assert ends(next(evidence), ORDERS)[0] is None
        cluster.story.fenced = set()
        back.serve(ListOffsetsRequest, answer)
        assert any(ends(one, ORDERS) == [110, 100, None] for one in evidence)

    @pytest.mark.parametrize("body", [b"\xff" * 40, b"", b"\0\0\0\0\0\0\0\x09"])
    def test_a_broker_that_answers_nonsense_hides_nobody(
        self, cluster: FakeCluster, client: ReadClient, body: bytes
    ) -> None:
        cluster.brokers[2].serve(ListOffsetsRequest, lambda _: Body(body))
        found = only(client)
        assert ends(found, ORDERS)[:2] == [110, 100]
        assert found.silent.keys() == {2}

    def test_a_broker_that_was_silent_in_an_earlier_go_is_not_asked_nor_waited_for(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        cluster.brokers[3].hung = True
        asked, reason = cluster.brokers[3].frames, "timed out"
        found = only(client, unasked={3: reason})
        assert ends(found, ORDERS) == [None, 100, 70]
        assert (found.silent, found.awaited) == ({3: reason}, frozenset())
        assert cluster.brokers[3].frames == asked


class TestHistories:
    def test_histories_are_read_back_until_neighbours_share_an_epoch(
        self, cluster: FakeCluster, client: ReadClient
    ) -> None:
        """Each alone wrote more epochs than are read at first; they parted in epoch 0."""
        cluster.hold(1, LEDGER, (0, 10), *((epoch, 1) for epoch in range(1, 41, 2)))
        cluster.hold(2, LEDGER, (0, 10), *((epoch, 1) for epoch in range(2, 42, 2)))
        told = histories(only(client))
        assert [history.ranges[0].epoch for history in told] == [0, 0]


def histories(evidence: Evidence) -> list[EpochHistory]:
    """Those of the replicas of `ledger-0`."""
    epochs = [log.epochs for log in replicas(evidence, LEDGER)]
    return [history for history in epochs if known(history)]


LONG = log(1, (0, 10), (1, 20), (3, 30), (5, 40))
FORKED = log(2, (0, 10), (1, 20), (2, 30), (4, 40))


@pytest.mark.parametrize(
    ("replicas", "lonely"),
    [
        ((LONG, FORKED), False),
        ((with_recent_epochs(LONG, 2), with_recent_epochs(FORKED, 2)), True),
        ((with_recent_epochs(LONG, 2), FORKED), True),
        ((with_recent_epochs(LONG, 3), with_recent_epochs(FORKED, 3)), False),
        ((log(1, (0, 10)), log(2, (1, 10))), False),
        ((log(1, (7, 10)), with_recent_epochs(FORKED, 1)), True),
        ((with_recent_epochs(LONG, 1), log(2)), False),
        ((with_recent_epochs(LONG, 1), silent(2)), False),
        ((with_recent_epochs(LONG, 1), without_epochs(2, 40)), False),
        ((with_recent_epochs(LONG, 1), silent(3), with_recent_epochs(FORKED, 1)), True),
        ((LONG,), False),
    ],
    ids=[
        "whole",
        "both cut short",
        "one cut short",
        "cut where they meet",
        "nothing in common, and nothing more to tell",
        "one told all",
        "one is empty",
        "one is silent",
        "one may not be read",
        "neighbours with a silent one between",
        "alone",
    ],
)
def test_two_replicas_that_share_no_epoch_and_could_tell_more(
    replicas: tuple[ReplicaLog, ...], lonely: bool
) -> None:
    evidence = offline(*replicas)
    assert without_common_epoch([evidence]) == ({evidence.partition} if lonely else frozenset())


OFFSETS = TopicPartition("__consumer_offsets", 3)


@pytest.fixture
def coordinating() -> Iterator[FakeCluster]:
    """`ledger-0` on b2 and b3; b1, which coordinates the groups, has no replica of it."""
    with FakeCluster(3) as coordinating:
        coordinating.story.offline(LEDGER, (2, 3))
        coordinating.hold(2, LEDGER, (0, 100))
        coordinating.hold(3, LEDGER, (0, 80))
        coordinating.story.groups = {"billing": {LEDGER: 130}}
        yield coordinating


@pytest.fixture
def group_client(coordinating: FakeCluster) -> Iterator[ReadClient]:
    with closing(coordinating.client(2)) as group_client:
        yield group_client


def gathered(group_client: ReadClient, *topics: str, **more: Any) -> Evidence:
    snapshot = group_client.snapshot(soon(), topics)
    wanted = [state for state in snapshot.offline if state.partition == LEDGER]
    (found,) = gather(group_client, snapshot, wanted, soon(), **more)
    return found


def ledger(found: Evidence) -> PartitionEvidence:
    (evidence,) = found.partitions
    return evidence


@pytest.mark.parametrize("topics", [(), ("ledger",)], ids=["all topics", "one topic"])
def test_r33_an_offline_offsets_partition_is_named_and_hides_no_other_groups(
    coordinating: FakeCluster,
    group_client: ReadClient,
    topics: tuple[str, ...],
) -> None:
    coordinating.story.offline(OFFSETS, (2, 3))
    found = ledger(gathered(group_client, *topics))
    assert found.group_offsets == {"billing": 130}
    assert found.unread_floor_source == "group billing"
    (unread,) = found.groups_unread
    assert str(OFFSETS) in unread


def test_r33_groups_of_a_coordinator_that_does_not_answer_are_named(
    coordinating: FakeCluster, group_client: ReadClient
) -> None:
    coordinating.brokers[COORDINATOR].hung = True
    (unread,) = ledger(gathered(group_client, wait=AfterAnswers(2))).groups_unread
    assert f"b{COORDINATOR} coordinates" in unread


def test_an_offsets_topic_that_may_not_be_described_hides_nothing(
    coordinating: FakeCluster, group_client: ReadClient
) -> None:
    snapshot = group_client.snapshot(soon(), ["ledger"])

    def hang_up(_: Any) -> None:
        raise HangUp

    for fake in coordinating.brokers.values():
        fake.serve(DescribeTopicPartitionsRequest, hang_up)
    (found,) = gather(group_client, snapshot, snapshot.offline, soon())
    assert ledger(found).group_offsets == {"billing": 130}


def test_r12_an_unregistered_broker_is_not_waited_for(
    coordinating: FakeCluster, group_client: ReadClient
) -> None:
    coordinating.brokers[3].stop()
    del coordinating.story.addresses[3]
    found = gathered(group_client)
    assert set(found.silent) == {3}
    assert ledger(found).unregistered == (3,)


def test_what_some_coordinators_told_stands_and_what_none_told_is_unknown() -> None:
    first, second = {LEDGER: {"billing": 5}}, {LEDGER: {"audit": 7}}
    assert merged([first, Unknown("hung"), second]) == {LEDGER: {"billing": 5, "audit": 7}}
    assert merged([Unknown("hung"), Unknown("dead")]) == Unknown("hung")
    assert merged([]) == Unknown("no broker listed its groups")
