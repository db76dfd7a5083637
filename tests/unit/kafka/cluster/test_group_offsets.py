"""Groups whose coordinator was just started, and still loads them from their log."""

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import pytest
from kafka.protocol.admin import ListGroupsRequest, ListGroupsResponse
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from breakglass.services.checkpoint.kafka.owners import read_named_groups
from breakglass.services.errors import ClusterError, NotAuthorized, TimedOut
from breakglass.services.kafka.cluster.group_offsets import live_groups
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.group_standing import read_standing
from tests.kit.deadlines import ample
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import committed

LOADING, NOT_COORDINATOR, NOT_ALLOWED, REFUSED = 14, 16, 30, 31
ORDERS = TopicPartition("orders", 0)
ALL = {"billing": {ORDERS: 78}, "audit": {ORDERS: 12}}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as cluster:
        cluster.story.groups = {"billing": {ORDERS: 78}, "audit": {ORDERS: 12}}
        cluster.brokers[1].serve(FindCoordinatorRequest, coordinated_by_1)
        yield cluster


def coordinated_by_1(request: Any) -> Any:
    told = {"node_id": 1, "host": "", "port": 0, "error_code": 0, "error_message": None}
    coordinator = FindCoordinatorResponse.Coordinator
    found = [coordinator(key=key, **told) for key in request.coordinator_keys]
    return FindCoordinatorResponse(coordinators=found)


def listing(cluster: FakeCluster, *codes: int, then: int = 0) -> None:
    """Answer ListGroups with each of *codes* and one group, then with *then* and all groups."""
    coming, group = chain(codes, repeat(then)), ListGroupsResponse.ListedGroup

    def answer(_: Any) -> Any:
        code = next(coming)
        names = ["billing"] if code else ["billing", "audit"]
        groups = [group(group_id=name, group_state="Stable") for name in names]
        return ListGroupsResponse(error_code=code, groups=groups)

    cluster.brokers[1].serve(ListGroupsRequest, answer)


def fetching(cluster: FakeCluster, *codes: int, then: int = 0) -> None:
    """Answer OffsetFetch with each of *codes* for every group, then with *then*."""
    group_class = OffsetFetchResponse.OffsetFetchResponseGroup
    coming = chain(codes, repeat(then))

    def answer(request: Any) -> Any:
        code = next(coming)
        if not code:
            return committed(cluster.story, request)
        names = [group.group_id for group in request.groups]
        return OffsetFetchResponse(
            groups=[group_class(group_id=name, error_code=code, topics=[]) for name in names]
        )

    cluster.brokers[1].serve(OffsetFetchRequest, answer)


def standing(
    client: ReadClient, deadline: Deadline | None = None
) -> dict[str, dict[TopicPartition, int]]:
    return read_named_groups(client, ("billing", "audit"), {ORDERS}, deadline or ample())


@pytest.mark.parametrize("code", [LOADING, NOT_COORDINATOR])
def test_h11_groups_whose_offsets_are_not_loaded_yet_are_waited_for(
    cluster: FakeCluster, client: ReadClient, code: int
) -> None:
    fetching(cluster, code, code)
    assert standing(client) == ALL


def test_h11_groups_are_asked_for_by_name_for_a_new_coordinator_lists_none(
    cluster: FakeCluster, client: ReadClient
) -> None:
    cluster.brokers[1].serve(ListGroupsRequest, lambda _: ListGroupsResponse(groups=[]))
    assert standing(client) == ALL


def test_h11_groups_that_are_never_loaded_are_not_taken_for_groups_without_offsets(
    cluster: FakeCluster, client: ReadClient
) -> None:
    fetching(cluster, then=LOADING)
    with pytest.raises(TimedOut):
        standing(client, Deadline.after(0.3))


def test_a_group_without_its_acl_is_refused(cluster: FakeCluster, client: ReadClient) -> None:
    fetching(cluster, then=NOT_ALLOWED)
    with pytest.raises(NotAuthorized) as refused:
        standing(client)
    assert refused.value.needs == "DESCRIBE on group audit"
    assert len(cluster.brokers[1].requests(OffsetFetchRequest)) == 1


def test_groups_are_listed_once_they_are_loaded(cluster: FakeCluster, client: ReadClient) -> None:
    listing(cluster, LOADING, LOADING, then=REFUSED)
    with pytest.raises(ClusterError):
        live_groups(client.sender, 1, ample())
    assert len(cluster.brokers[1].requests(ListGroupsRequest)) == 3
    listing(cluster, LOADING)
    assert live_groups(client.sender, 1, ample()) == {"billing", "audit"}


def test_r19_a_coordinator_that_loads_its_groups_is_named_beside_those_that_are_loaded(
    cluster: FakeCluster, client: ReadClient
) -> None:
    listing(cluster, then=LOADING)
    found = read_standing(client, [1], {ORDERS}, ample())
    assert found.offsets == {ORDERS: {"billing": 78}}
    assert found.unread == {1: "COORDINATOR_LOAD_IN_PROGRESS"}
