"""Snapshots taken again and again: what is told in the same bytes is the very same object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from breakglass.services.kafka.cluster.snapshot_memory import SnapshotMemory
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.cached_answers import Unchanged
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


def test_a_partition_that_comes_back_is_told_and_one_that_is_deleted_is_gone(
    cluster: FakeCluster, client: ReadClient, memory: SnapshotMemory
) -> None:
    taken(client, memory)
    cluster.story.states[PARTITIONS[0]] = replace(cluster.story.states[PARTITIONS[0]], leader=1)
    del cluster.story.states[PARTITIONS[7]]
    second = taken(client, memory)
    assert len(second.partitions) == len(PARTITIONS) - 1
    assert [state.partition for state in second.offline] == [
        partition for partition in PARTITIONS if partition not in (PARTITIONS[0], PARTITIONS[7])
    ]


def test_a_reassignment_that_begins_changes_its_partition_alone(
    cluster: FakeCluster, client: ReadClient, memory: SnapshotMemory
) -> None:
    first = taken(client, memory)
    cluster.story.reassignments[PARTITIONS[3]] = Reassignment((4,), ())
    second = taken(client, memory)
    changed = [
        new for old, new in zip(first.partitions, second.partitions, strict=True) if old is not new
    ]
    assert [(state.partition, state.reassignment) for state in changed] == [
        (PARTITIONS[3], Reassignment((4,), ()))
    ]
    assert taken(client, memory).partitions is second.partitions


def test_a_topic_that_goes_offline_has_its_settings_read(
    cluster: FakeCluster, client: ReadClient, memory: SnapshotMemory
) -> None:
    taken(client, memory)
    cluster.story.offline(TopicPartition("stock", 0))
    assert set(taken(client, memory).settings) == {"orders", "stock"}


def test_an_answer_that_cannot_be_converted_is_not_kept() -> None:
    class Answer:
        name = "Answer"

        @classmethod
        def decode(cls, body: bytes, *, version: int) -> bytes:
            return body

    def refuse_bad(body: bytes) -> bytes:
        if body == b"bad":
            raise ValueError("spoiled")
        return body

    held = Unchanged(Answer, refuse_bad)
    good = held.decode(b"good", version=1)
    with pytest.raises(ValueError, match="spoiled"):
        held.decode(b"bad", version=1)
    assert held.decode(b"good", version=1) is good
    assert held.decode(b"good", version=2) is not good
