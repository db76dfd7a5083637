"""Snapshots taken again and again: what is told in the same bytes is the very same object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from breakglass.services.kafka.cluster.snapshot_memory import SnapshotMemory
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.messages.reading import DescribeTopicPartitionsResponse
from breakglass.services.model import Reassignment, TopicPartition
from breakglass.services.snapshot import ClusterSnapshot
from tests.kit.deadlines import ample
from tests.kit.fake_cluster import FakeCluster, partitions_of

PAGE = 5
PARTITIONS = partitions_of("orders", 3 * PAGE)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Three pages of offline partitions."""
    with FakeCluster(3) as cluster:
        for partition in PARTITIONS:
            cluster.story.offline(partition)
        cluster.story.page = PAGE
        yield cluster


@pytest.fixture
def memory() -> SnapshotMemory:
    return SnapshotMemory()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The versions of the pages that were decoded."""
    pages: list[int] = []
    decode: Any = DescribeTopicPartitionsResponse.decode

    def counted(*arguments: Any, version: int) -> Any:
        pages.append(version)
        return decode(*arguments, version=version)

    monkeypatch.setattr(DescribeTopicPartitionsResponse, "decode", counted)
    return pages


def taken(client: ReadClient, memory: SnapshotMemory) -> ClusterSnapshot:
    return client.snapshot(ample(), memory=memory)


def test_while_nothing_changes_partitions_and_settings_are_the_same_objects(
    client: ReadClient, memory: SnapshotMemory, decoded: list[int]
) -> None:
    first, second = taken(client, memory), taken(client, memory)
    assert second.partitions is first.partitions
    assert second.settings["orders"] is first.settings["orders"]
    assert second.observed_at_ms >= first.observed_at_ms
    assert len(decoded) == len(PARTITIONS) / PAGE


def test_only_the_page_that_changed_is_decoded(
    cluster: FakeCluster, client: ReadClient, memory: SnapshotMemory, decoded: list[int]
) -> None:
    first = taken(client, memory)
    decoded.clear()
    changed = PARTITIONS[PAGE + 1]
    cluster.story.states[changed] = replace(cluster.story.states[changed], leader_epoch=9)
    second = taken(client, memory)
    assert len(decoded) == 1
    assert [
        partition.leader_epoch for partition in second.partitions if partition.partition == changed
    ] == [9]
    same = [old is new for old, new in zip(first.partitions, second.partitions, strict=True)]
    assert same == [True] * PAGE + [False] * PAGE + [True] * PAGE


def test_a_partition_that_comes_back_or_is_deleted_is_gone_and_a_new_one_there(
    cluster: FakeCluster, client: ReadClient, memory: SnapshotMemory
) -> None:
    taken(client, memory)
    cluster.story.states[PARTITIONS[0]] = replace(cluster.story.states[PARTITIONS[0]], leader=1)
    del cluster.story.states[PARTITIONS[7]]
    stock = TopicPartition("stock", 0)
    cluster.story.offline(stock)
    second = taken(client, memory)
    left = [one for one in PARTITIONS if one not in (PARTITIONS[0], PARTITIONS[7])]
    assert [state.partition for state in second.offline] == [*left, stock]
    assert set(second.settings) == {"orders", "stock"}


def test_a_reassignment_that_begins_changes_its_partition_alone(
    cluster: FakeCluster, client: ReadClient, memory: SnapshotMemory
) -> None:
    first, moving = taken(client, memory), Reassignment((4,), ())
    cluster.story.reassignments[PARTITIONS[3]] = moving
    second = taken(client, memory)
    pairs = zip(first.partitions, second.partitions, strict=True)
    (changed,) = [new for old, new in pairs if old is not new]
    assert (changed.partition, changed.reassignment) == (PARTITIONS[3], moving)
    assert taken(client, memory).partitions is second.partitions
