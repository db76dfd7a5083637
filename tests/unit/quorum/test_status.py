"""Who has to be started, by what brokers and controllers answer; and what is asked of whom."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from kafka.protocol.consumer import FetchRequest, FetchResponse

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.errors import Unreachable
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.connection import listens
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Denied, Silent, Unknown
from breakglass.services.quorum.image import BrokerRegistration, ControllerRegistration, Key
from breakglass.services.quorum.status import (
    DO_NOT,
    QuorumNode,
    QuorumRole,
    QuorumStatus,
    answering_nodes,
    look_at_quorum,
)
from breakglass.services.session import ReadAccess
from breakglass.services.snapshot import Quorum, Voter
from tests.kit.fake_broker import FakeBroker
from tests.kit.fake_cluster import FakeCluster
from tests.kit.waiting import DEADLINE_SECONDS

NOT_READ = Unknown("not read")
THREE = (101, 102, 103)
CLUSTER = "cluster-of-controllers"
NONE: dict[Endpoint, int | None] = {}


def status(
    *down: int, leader: int | None = None, voters: tuple[int, ...] = THREE, fetched: int = 90_000
) -> QuorumStatus:
    """Controllers of which those in *down* do not answer, and fetched so many milliseconds ago."""
    nodes = tuple(
        QuorumNode(
            *(one, False, f"c{one}:9093", "connection refused" if one in down else "", NOT_READ),
            *(QuorumRole.VOTER, NOT_READ, NOT_READ, NOT_READ, NOT_READ),
        )
        for one in voters
    )
    known = tuple(Voter(one, 9, 0, fetched if one in down else 0) for one in voters)
    quorum = Silent("no answer") if leader is None else Quorum(leader, 7, 9, known)
    return QuorumStatus(CLUSTER, quorum, False, voters, nodes)


@pytest.mark.parametrize(
    ("down", "lacking", "start"),
    [
        ((101, 102), 1, "Start c101 or c102 with its own disk"),
        (THREE, 2, "Start 2 of c101, c102 and c103 with their own disks"),
    ],
)
def test_q17_without_a_majority_the_first_line_says_whom_to_start_and_the_next_what_not_to_do(
    down: tuple[int, ...], lacking: int, start: str
) -> None:
    found = status(*down)
    first, *others = found.advice()
    assert (found.lacking, found.in_order) == (lacking, False)
    assert start in first
    assert tuple(others[: len(DO_NOT)]) == DO_NOT


def test_q17_a_leader_whom_no_majority_follows_does_not_count() -> None:
    found = status(101, 102, leader=103)
    assert (found.lacking, found.in_order) == (1, False)


def test_q17_a_voter_that_fetches_is_there_though_it_cannot_be_asked_from_here() -> None:
    found = status(101, 102, leader=103, fetched=900)
    assert (found.missing, found.lacking, found.in_order) == ((), 0, True)


def test_q17_one_missing_voter_is_named_while_the_others_lead() -> None:
    found = status(101, leader=103)
    (said,) = found.advice()
    assert ([one.name for one in found.missing], found.in_order) == (["c101"], True)
    assert "Start c101 with its own disk. If one more stops, no controller leads." in said
    (said,) = status(leader=101, voters=(101,)).advice()
    assert "the only voter" in said


def test_q17_what_is_unknown_is_not_called_lost() -> None:
    denied = replace(status(), quorum=Denied("DESCRIBE on CLUSTER is missing", "DESCRIBE"))
    assert next(denied.advice()).startswith("It is unknown if a controller leads")
    assert next(status().advice()).startswith("No controller leads, but 3 of 3 voters answer")
    nobody = replace(status(), voters=(), nodes=())
    assert (nobody.lacking, nobody.in_order) == (0, False)
    assert "start the missing controllers" in next(nobody.advice())


def test_q24_a_leader_whose_log_ends_before_what_brokers_have_applied_is_not_healthy() -> None:
    def found(applied: int | Unknown) -> QuorumStatus:
        healthy = status(leader=101, voters=(101,))
        (own,) = healthy.nodes
        leader = replace(own, role=QuorumRole.LEADER, log_end=21)
        broker = replace(own, id=1, broker=True, applied=applied, role=QuorumRole.UNKNOWN)
        return replace(healthy, nodes=(leader, broker))

    for applied in (21, NOT_READ):
        assert found(applied).in_order
    blank = found(683)
    first, second, *_ = blank.advice()
    assert (blank.in_order, [one.name for one in blank.ahead]) == (False, ["b1"])
    assert all(part in first for part in ("Controller 101", "21", "683", "blank or lags", "Stop"))
    assert second.startswith("Do not start or restart brokers")


def test_q17_a_voter_that_does_not_answer_is_not_called_answering() -> None:
    (said,) = status(101, leader=103, fetched=900).advice()
    assert "c101 did not answer" in said
    assert "all 3" not in said


def test_q17_a_voter_that_times_out_may_hang() -> None:
    found = status(101, 102)
    first, second, *_ = found.nodes
    hung = replace(first, trouble="timed out")
    said = list(replace(found, nodes=(hung, *found.nodes[1:])).advice())
    assert "process of c101 may hang" in said[1]
    assert second.trouble in "connection refused"


class Controllers:
    """Three controllers on loopback, as DescribeCluster names them; those in `down` are stopped."""

    def __init__(self, stack: ExitStack) -> None:
        self.nodes = {one: stack.enter_context(FakeBroker()) for one in THREE}
        self.cluster_id = CLUSTER
        self.leader: int | None = None
        for one, node in self.nodes.items():
            node.serve(DescribeClusterRequest, self.describe, (0, 1))
            node.serve(DescribeQuorumRequest, partial(self.quorum, one))
            node.serve(FetchRequest, self.fetch, (4, 17))

    def describe(self, request: Any) -> Any:
        assert request.endpoint_type == 2
        broker = DescribeClusterResponse.DescribeClusterBroker
        listed = [
            broker(broker_id=one, host=node.endpoint.host, port=node.endpoint.port)
            for one, node in self.nodes.items()
        ]
        return DescribeClusterResponse(
            cluster_id=self.cluster_id, controller_id=-1, brokers=listed, endpoint_type=2
        )

    def quorum(self, node: int, _: Any) -> Any:
        topic_class = DescribeQuorumResponse.TopicData
        state = topic_class.PartitionData.ReplicaState
        now = 1_700_000_000_000
        times = {"last_fetch_timestamp": now, "last_caught_up_timestamp": now}
        fields: dict[str, Any] = {"error_code": 6, "leader_id": 0, "leader_epoch": 0}
        voters, observers = [], []
        if node == self.leader:
            fields = {"error_code": 0, "leader_id": node, "leader_epoch": 7}
            voters = [state(replica_id=one, log_end_offset=90, **times) for one in THREE]
            observers = [state(replica_id=1, log_end_offset=88, **times)]
        partition = topic_class.PartitionData(
            partition_index=0,
            high_watermark=88,
            current_voters=voters,
            observers=observers,
            **fields,
        )
        topic = topic_class(topic_name="__cluster_metadata", partitions=[partition])
        return DescribeQuorumResponse(topics=[topic], nodes=[])

    def fetch(self, _: Any) -> Any:
        topic_class = FetchResponse.FetchableTopicResponse
        data = topic_class.PartitionData
        at = data.LeaderIdAndEpoch(leader_id=-1, leader_epoch=12)
        partition = data(
            partition_index=0, error_code=42, high_watermark=-1, current_leader=at, records=b""
        )
        return FetchResponse(responses=[topic_class(partitions=[partition])])

    def look(
        self, client: ReadClient | None, *named: int, before: dict[Endpoint, int | None] = NONE
    ) -> QuorumStatus:
        addresses = [self.nodes[one].endpoint for one in named]
        access = ReadAccess(ConnectionSettings((Endpoint("none", 1),)))
        reach = access.sender_at
        return look_at_quorum(client, addresses, reach, DEADLINE_SECONDS, before=before)


@pytest.fixture
def controllers() -> Iterator[Controllers]:
    with ExitStack() as stack:
        yield Controllers(stack)


def test_q17_one_controller_names_the_others_and_each_is_asked_for_its_epoch(
    controllers: Controllers,
) -> None:
    for one in (101, 102):
        controllers.nodes[one].stop()
    found = controllers.look(None, 103)
    assert [(one.name, one.trouble, one.epoch) for one in found.nodes if not one.trouble] == [
        ("c103", "", 12)
    ]
    assert [one.name for one in found.missing] == ["c101", "c102"]
    assert (found.cluster_id, found.voters, found.lacking) == (CLUSTER, THREE, 1)


def test_q17_a_controller_that_refuses_without_a_majority_runs(controllers: Controllers) -> None:
    """As Kafka 4.3.1 does when it is started again: it does not know the metadata.version."""
    refusal = DescribeClusterResponse(error_code=35, error_message="not supported", brokers=[])
    controllers.nodes[101].serve(DescribeClusterRequest, lambda _: refusal, (0, 1))
    controllers.nodes[102].stop()
    found = controllers.look(None, 103, 101)
    assert [one.name for one in found.missing] == ["c102"]
    assert [(one.name, one.waits) for one in found.nodes if not one.trouble] == [
        ("c101", True),
        ("c103", False),
    ]


def test_q17_the_leader_knows_voters_observers_and_their_log_ends(controllers: Controllers) -> None:
    controllers.leader = 102
    with FakeCluster(1) as cluster, closing(cluster.client()) as client:
        controllers.cluster_id = cluster.story.cluster_id
        found = controllers.look(client, 101)
    assert found.in_order
    assert [(one.name, one.role, one.epoch, one.log_end, one.lag) for one in found.nodes] == [
        ("c101", QuorumRole.VOTER, 7, 90, 0),
        ("c102", QuorumRole.LEADER, 7, 90, 0),
        ("c103", QuorumRole.VOTER, 7, 90, 0),
        ("b1", QuorumRole.OBSERVER, 7, 88, 2),
    ]


def test_q17_a_controller_of_another_cluster_is_not_taken_for_one(controllers: Controllers) -> None:
    controllers.leader = 102
    with FakeCluster(1) as cluster, closing(cluster.client()) as client:
        found = controllers.look(client, 102)
    address = str(controllers.nodes[102].endpoint)
    (other,) = [one for one in found.nodes if one.address == address]
    assert CLUSTER in other.trouble
    assert found.leader != 102


def test_q17_brokers_that_do_not_answer_end_it_unless_a_controller_was_named(
    controllers: Controllers,
) -> None:
    with FakeCluster(1) as cluster, closing(cluster.client()) as client:
        cluster.brokers[1].stop()
        with pytest.raises(Unreachable):
            controllers.look(client)
        assert controllers.look(client, 103).voters == THREE


@pytest.fixture
def places() -> Iterator[dict[int, FakeBroker]]:
    with ExitStack() as stack:
        yield {one: stack.enter_context(FakeBroker()) for one in (1, 2, *range(101, 106))}


def test_q18_nodes_are_asked_where_the_copy_says_that_they_listen(
    places: dict[int, FakeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """b1, c101 and c104 answer, c104 with an error; b2's address is of another cluster by now.

    c102 hangs up, c103 is off, and nothing says whether c105 is.
    """
    refusal = DescribeClusterResponse(error_code=35, brokers=[])
    places[104].serve(DescribeClusterRequest, lambda _: refusal, (0, 1))

    def told(cluster: str) -> Any:
        return lambda _: DescribeClusterResponse(cluster_id=cluster, brokers=[])

    for node, cluster in ((1, CLUSTER), (2, "another-cluster"), (101, CLUSTER)):
        places[node].serve(DescribeClusterRequest, told(cluster), (0, 1))
    places[103].stop()
    state: dict[Key, Any] = {}
    for node, place in places.items():
        at = (("ANY", place.endpoint.host, place.endpoint.port),)
        if node > 100:
            state["controller", node] = ControllerRegistration(None, at)
        else:
            state["broker", node] = BrokerRegistration(1, None, False, False, None, (), at)
    access = ReadAccess(ConnectionSettings((Endpoint("none", 1),)))
    hung = places[105].endpoint

    def listening(address: Endpoint, deadline: Deadline) -> bool | None:
        return None if address == hung else listens(address, deadline)

    monkeypatch.setattr("breakglass.services.quorum.status.listens", listening)
    found = answering_nodes(state, CLUSTER, access.sender_at, DEADLINE_SECONDS)
    assert [(one.name, one.asked) for one in found] == [
        ("c101", True),
        ("c102", False),
        ("c104", True),
        ("c105", False),
        ("b1", True),
    ]


def test_q17_controllers_of_an_earlier_look_are_known_though_no_node_answers(
    controllers: Controllers,
) -> None:
    before: dict[Endpoint, int | None] = {
        node.endpoint: one for one, node in controllers.nodes.items()
    }
    with FakeCluster(1) as cluster, closing(cluster.client()) as client:
        cluster.brokers[1].stop()
        for node in controllers.nodes.values():
            node.stop()
        found = controllers.look(client, before=before)
    assert (found.voters, found.lacking, len(found.missing)) == (THREE, 2, 3)
