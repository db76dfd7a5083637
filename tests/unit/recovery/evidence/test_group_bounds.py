"""What groups committed bounds what is unread, whichever broker coordinates them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import DescribeTopicPartitionsRequest

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import PartitionEvidence, TopicPartition, Unknown
from breakglass.services.recovery.evidence.gather import Evidence, gather
from breakglass.services.recovery.evidence.group_bounds import merged
from tests.kit.fake_broker import HangUp
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import COORDINATOR
from tests.unit.recovery.evidence.conftest import AfterAnswers, soon

LEDGER, OFFSETS = TopicPartition("ledger", 0), TopicPartition("__consumer_offsets", 3)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """`ledger-0` on b2 and b3; b1, which coordinates the groups, has no replica of it."""
    with FakeCluster(3) as cluster:
        cluster.story.offline(LEDGER, (2, 3))
        cluster.hold(2, LEDGER, (0, 100))
        cluster.hold(3, LEDGER, (0, 80))
        cluster.story.groups = {"billing": {LEDGER: 130}}
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[ReadClient]:
    with closing(cluster.client(2)) as client:
        yield client


def gathered(client: ReadClient, *topics: str, **more: Any) -> Evidence:
    snapshot = client.snapshot(soon(), topics)
    wanted = [state for state in snapshot.offline if state.partition == LEDGER]
    (found,) = gather(client, snapshot, wanted, soon(), **more)
    return found


def ledger(found: Evidence) -> PartitionEvidence:
    (evidence,) = found.partitions
    return evidence


def test_r11_a_coordinator_without_a_replica_is_asked_too(client: ReadClient) -> None:
    found = ledger(gathered(client))
    assert (found.unread_floor, found.unread_floor_source) == (130, "group billing")


def test_a_coordinator_without_a_replica_that_hangs_costs_the_settling_time_alone(
    cluster: FakeCluster, client: ReadClient
) -> None:
    cluster.brokers[COORDINATOR].hung = True
    found = gathered(client, wait=AfterAnswers(2))
    assert (found.silent, found.awaited) == ({}, frozenset())
    assert ledger(found).unread_floor_source == "high watermark of b2"


@pytest.mark.parametrize("topics", [(), ("ledger",)], ids=["all topics", "one topic"])
def test_r33_an_offline_offsets_partition_is_named_and_hides_no_other_groups(
    cluster: FakeCluster, client: ReadClient, topics: tuple[str, ...]
) -> None:
    cluster.story.offline(OFFSETS, (2, 3))
    found = ledger(gathered(client, *topics))
    assert found.group_offsets == {"billing": 130}
    assert found.unread_floor_source == "group billing"
    (unread,) = found.groups_unread
    assert str(OFFSETS) in unread


def test_r33_groups_of_a_coordinator_that_does_not_answer_are_named(
    cluster: FakeCluster, client: ReadClient
) -> None:
    cluster.brokers[COORDINATOR].hung = True
    (unread,) = ledger(gathered(client, wait=AfterAnswers(2))).groups_unread
    assert f"b{COORDINATOR} coordinates" in unread


def test_an_offsets_topic_that_is_online_hides_nothing(
    cluster: FakeCluster, client: ReadClient
) -> None:
    cluster.story.states[OFFSETS] = replace(cluster.story.offline(OFFSETS, (2, 3)), leader=2)
    assert ledger(gathered(client)).group_offsets == {"billing": 130}


def test_an_offsets_topic_that_may_not_be_described_hides_nothing(
    cluster: FakeCluster, client: ReadClient
) -> None:
    snapshot = client.snapshot(soon(), ["ledger"])

    def hang_up(_: Any) -> None:
        raise HangUp

    for fake in cluster.brokers.values():
        fake.serve(DescribeTopicPartitionsRequest, hang_up)
    (found,) = gather(client, snapshot, snapshot.offline, soon())
    assert ledger(found).group_offsets == {"billing": 130}


def test_r12_an_unregistered_broker_is_not_waited_for(
    cluster: FakeCluster, client: ReadClient
) -> None:
    cluster.brokers[3].stop()
    del cluster.story.addresses[3]
    found = gathered(client)
    assert set(found.silent) == {3}
    assert ledger(found).unregistered == (3,)


def test_what_some_coordinators_told_stands_and_what_none_told_is_unknown() -> None:
    first, second = {LEDGER: {"billing": 5}}, {LEDGER: {"audit": 7}}
    assert merged([first, Unknown("hung"), second]) == {LEDGER: {"billing": 5, "audit": 7}}
    assert merged([Unknown("hung"), Unknown("dead")]) == Unknown("hung")
    assert merged([]) == Unknown("no broker listed its groups")
