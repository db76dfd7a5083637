"""Groups whose coordinator was just started, and still loads them from their log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain, repeat
from typing import Any

import pytest
from kafka.protocol.admin import ListGroupsRequest, ListGroupsResponse
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from breakglass.services.errors import ClusterError, TimedOut
from breakglass.services.kafka.cluster.group_offsets import (
    GroupOffsets,
    live_groups,
    read_all_committed,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import committed

SECONDS = 60.0
LOADING, REFUSED = 14, 31
ORDERS = TopicPartition("orders", 0)
ALL: GroupOffsets = {ORDERS: {"billing": 78, "audit": 12}}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as cluster:
        cluster.story.groups = {"billing": {ORDERS: 78}, "audit": {ORDERS: 12}}
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[ReadClient]:
    with closing(cluster.client()) as client:
        yield client


def listing(cluster: FakeCluster, *codes: int, then: int = 0) -> None:
    """Answer ListGroups with each of *codes* and one group, then with *then* and all groups."""
    coming = chain(codes, repeat(then))

    def answer(_: Any) -> Any:
        code = next(coming)
        names = ["billing"] if code else ["billing", "audit"]
        return ListGroupsResponse(
            error_code=code,
            groups=[
                ListGroupsResponse.ListedGroup(group_id=name, group_state="Stable")
                for name in names
            ],
        )

    cluster.brokers[1].serve(ListGroupsRequest, answer)


def test_h11_a_group_that_is_not_loaded_yet_is_waited_for(
    cluster: FakeCluster, client: ReadClient
) -> None:
    listing(cluster, LOADING, LOADING)
    found = read_all_committed(client.sender, 1, frozenset({ORDERS}), Deadline.after(SECONDS))
    assert (found.offsets, found.unready) == (ALL, "")


def test_h11_a_group_whose_offsets_are_not_loaded_yet_is_waited_for(
    cluster: FakeCluster, client: ReadClient
) -> None:
    group_class = OffsetFetchResponse.OffsetFetchResponseGroup
    codes = chain([LOADING], repeat(0))

    def answer(request: Any) -> Any:
        code = next(codes)
        if not code:
            return committed(cluster.story, request)
        names = [group.group_id for group in request.groups]
        return OffsetFetchResponse(
            groups=[group_class(group_id=name, error_code=code, topics=[]) for name in names]
        )

    cluster.brokers[1].serve(OffsetFetchRequest, answer)
    found = read_all_committed(client.sender, 1, frozenset({ORDERS}), Deadline.after(SECONDS))
    assert found.offsets == ALL


def test_h11_groups_that_are_never_loaded_are_not_taken_for_groups_without_offsets(
    cluster: FakeCluster, client: ReadClient
) -> None:
    listing(cluster, then=LOADING)
    with pytest.raises(TimedOut, match="COORDINATOR_LOAD_IN_PROGRESS"):
        read_all_committed(client.sender, 1, frozenset({ORDERS}), Deadline.after(0.3))


def test_members_are_looked_for_once_all_groups_are_loaded(
    cluster: FakeCluster, client: ReadClient
) -> None:
    listing(cluster, LOADING, LOADING)
    assert live_groups(client.sender, 1, Deadline.after(SECONDS)) == {"billing", "audit"}


def test_a_refusal_to_list_groups_is_not_repeated(cluster: FakeCluster, client: ReadClient) -> None:
    listing(cluster, then=REFUSED)
    with pytest.raises(ClusterError, match="DESCRIBE on the groups"):
        live_groups(client.sender, 1, Deadline.after(SECONDS))
    assert len(cluster.brokers[1].requests(ListGroupsRequest)) == 1
