"""What an armed session sends, and what each kind of answer, or none, amounts to."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from kafka.protocol import admin

from breakglass.services import errors
from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.kafka.election_client import LEFT_OUT, ElectionClient
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.messages.kip1275 import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition
from tests.kit.deadlines import ample
from tests.kit.fake_broker import Body, FakeBroker, HangUp
from tests.kit.waiting import DEADLINE_SECONDS

A, C = TopicPartition("a", 0), TopicPartition("b", 0)
Codes = Mapping[TopicPartition, int | None]
NOT_NEEDED, TIMED_OUT, NOT_ALLOWED = 84, 7, 31

Act = Callable[[ElectionClient], Any]


def reordering(client: ElectionClient) -> Any:
    return client.reorder({A: (1, 2), C: (2, 1)}, ample())


def electing(client: ElectionClient) -> Any:
    return client.elect(ElectionType.UNCLEAN, [A, C], ample())


def designating(client: ElectionClient) -> Any:
    return client.designate({A: 1, C: 2}, ample())


ACTS = pytest.mark.parametrize("act", [reordering, electing, designating])


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    """Accepts every election and every order."""
    with FakeBroker() as broker:
        answer_all(broker)
        yield broker


@pytest.fixture
def client(broker: FakeBroker) -> Iterator[ElectionClient]:
    with closing(sender_to(broker.endpoint)) as sender:
        yield ElectionClient(sender)


def sender_to(server: Endpoint) -> Sender:
    security = ClientSecurity(ConnectionSettings((server,)))
    allowed = api_keys.READ | api_keys.ELECT
    return Sender((server,), security, allowed, connect_seconds=DEADLINE_SECONDS)


def answer_all(broker: FakeBroker, codes: Codes | None = None, *, top: int = 0) -> None:
    """Answer with *codes* by partition, the rest with *top*; None leaves one out."""
    result = ElectLeadersResponse.ReplicaElectionResult
    order = admin.AlterPartitionReassignmentsResponse.ReassignableTopicResponse

    def replied(topic: str, asked: list[int]) -> Iterator[tuple[int, int]]:
        for number in asked:
            code = (codes or {}).get(TopicPartition(topic, number), top)
            if code is not None:
                yield number, code

    def elected(topic: Any) -> Any:
        told = replied(topic.topic, topic.partitions)
        results = [result.PartitionResult(partition_id=one, error_code=code) for one, code in told]
        return result(topic=topic.topic, partition_result=results)

    def ordered(topic: Any) -> Any:
        told = replied(topic.name, [one.partition_index for one in topic.partitions])
        made = order.ReassignablePartitionResponse
        return order(
            name=topic.name,
            partitions=[made(partition_index=one, error_code=code) for one, code in told],
        )

    broker.serve(
        ElectLeadersRequest,
        lambda request: ElectLeadersResponse(
            error_code=top,
            replica_election_results=[elected(topic) for topic in request.topic_partitions],
        ),
    )
    broker.serve(
        admin.AlterPartitionReassignmentsRequest,
        lambda request: admin.AlterPartitionReassignmentsResponse(
            error_code=top, responses=[ordered(topic) for topic in request.topics]
        ),
    )


class TestWhatIsSent:
    @pytest.mark.parametrize("count", [0, 1_001])
    def test_r23_nothing_and_too_much_are_refused_before_they_are_sent(
        self, broker: FakeBroker, client: ElectionClient, count: int
    ) -> None:
        """A null list would be every partition of the cluster; it cannot even be written."""
        many = [TopicPartition("a", number) for number in range(count)]
        acts: tuple[Callable[[], Any], ...] = (
            lambda: client.elect(ElectionType.UNCLEAN, many, ample()),
            lambda: client.reorder(dict.fromkeys(many, (1, 2)), ample()),
            lambda: client.designate(dict.fromkeys(many, 1), ample()),
        )
        for act in acts:
            with pytest.raises(errors.UsageError):
                act()
        assert broker.frames == 0


class TestAnswers:
    @ACTS
    @pytest.mark.parametrize(
        ("codes", "top"), [({A: None}, 0), ({}, TIMED_OUT)], ids=["left out", "timed out"]
    )
    def test_what_the_controller_may_have_done_is_unsettled_not_refused(
        self, broker: FakeBroker, client: ElectionClient, act: Act, codes: Codes, top: int
    ) -> None:
        """ForwardingManager.scala answers REQUEST_TIMED_OUT after it has passed the request on."""
        answer_all(broker, codes, top=top)
        reply = act(client)[A]
        assert reply.unsettled
        assert not reply.transient
        assert top or reply == LEFT_OUT

    @pytest.mark.parametrize(
        ("act", "needs"),
        [(reordering, "ALTER"), (electing, "ALTER"), (designating, "CLUSTER_ACTION")],
    )
    def test_r22_an_error_of_the_whole_is_raised_and_a_missing_acl_is_named(
        self, broker: FakeBroker, client: ElectionClient, act: Act, needs: str
    ) -> None:
        answer_all(broker, top=NOT_ALLOWED)
        with pytest.raises(errors.NotAuthorized) as refused:
            act(client)
        assert refused.value.needs == f"{needs} on CLUSTER"
        answer_all(broker, top=42)
        with pytest.raises(errors.ClusterError):
            act(client)


def hang_up(_: Any) -> Any:
    raise HangUp


def alien(_: Any) -> Any:
    """An answer of bytes that are none of that api."""
    return Body(b"\xff\xff")


@ACTS
@pytest.mark.parametrize("silence", [hang_up, alien])
def test_once_a_request_may_have_left_its_outcome_is_unknown_and_it_is_sent_once(
    broker: FakeBroker, client: ElectionClient, act: Act, silence: Any
) -> None:
    broker.serve(ElectLeadersRequest, silence)
    broker.serve(admin.AlterPartitionReassignmentsRequest, silence)
    with pytest.raises(errors.OutcomeUnknown):
        act(client)
    assert len(broker.received) == 1
