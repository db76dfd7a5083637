"""The one way out: what may leave, by which connection, and that nothing leaves twice."""

from __future__ import annotations

import importlib
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ElectLeadersRequest,
)
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.sasl import PasswordLogin, SaslSettings
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.security import ClientSecurity
from breakglass.services.connection.settings import ConnectionSettings, SecurityProtocol
from breakglass.services.errors import AuthenticationFailed, ConnectFailed, ReadOnly, TimedOut
from breakglass.services.kafka.wire import api_keys, connection
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.messages.group_details import (
    ConsumerGroupDescribeRequest,
    DescribeShareGroupOffsetsRequest,
)
from breakglass.services.kafka.wire.sender import ANY_BROKER, Sender
from breakglass.services.snapshot import Broker
from tests.kit.fake_broker import FakeBroker, HangUp
from tests.kit.waiting import within

PATIENCE = 10.0
CONNECTION_APIS = {17, 18, 36}
"""SaslHandshake, ApiVersions, SaslAuthenticate: sent by the connection itself."""
FAMILIES = ("admin", "consumer", "metadata", "producer", "sasl")


def request_classes() -> list[Any]:
    """Every request that kafka-python knows, by api key."""
    modules = [importlib.import_module(f"kafka.protocol.{family}") for family in FAMILIES]
    found: dict[int, Any] = {}
    for one in itertools.chain.from_iterable(vars(module).values() for module in modules):
        if isinstance(one, type) and issubclass(one, ApiMessage) and is_request(one):
            found[api_key(one)] = one
    return [found[key] for key in sorted(found)]


def api_key(message_class: Any) -> int:
    return int(message_class.API_KEY)


def is_request(message_class: Any) -> bool:
    return message_class.__name__.endswith("Request") and message_class.API_KEY is not None


OWN_CLASSES = (ConsumerGroupDescribeRequest, DescribeShareGroupOffsetsRequest)
"""Reads that only the product itself describes."""
FORBIDDEN = [class_ for class_ in request_classes() if class_.API_KEY not in api_keys.READ]


def sender_to(
    *brokers: FakeBroker | Endpoint,
    allowed: frozenset[int] = api_keys.READ,
    security: ClientSecurity | None = None,
    **options: Any,
) -> Sender:
    servers = tuple(one.endpoint if isinstance(one, FakeBroker) else one for one in brokers)
    plain = ClientSecurity(ConnectionSettings(servers))
    return Sender(servers, security or plain, allowed, client_id="tests", **options)


def ask(sender: Sender, broker: int = ANY_BROKER, seconds: float = PATIENCE, lane: str = "") -> Any:
    deadline = Deadline.after(seconds)
    return sender.call(
        broker, MetadataRequest(topics=[]), MetadataResponse, deadline, lane=lane, max_version=9
    )


def named(name: str) -> FakeBroker:
    """A broker that gives its name for the cluster id."""
    return FakeBroker().serve(MetadataRequest, lambda _: MetadataResponse(cluster_id=name))


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with named("here") as broker:
        yield broker


@pytest.fixture
def sender(broker: FakeBroker) -> Iterator[Sender]:
    """May read, through `broker`, which is broker 1."""
    with closing(sender_to(broker)) as sender:
        sender.learn([Broker(1, *broker.endpoint[:2])])
        yield sender


class TestTheAllowList:
    def test_reads_are_all_that_it_holds(self) -> None:
        """By name: an api that changes something has another verb."""
        names = {
            class_.API_KEY: class_.name.removesuffix("Request")
            for class_ in (*request_classes(), *OWN_CLASSES)
        }
        verbs = ("Describe", "List", "Find", "Metadata", "Fetch", "OffsetFetch")
        assert set(names) >= api_keys.READ
        reads = [names[key] for key in api_keys.READ]
        others = [name for name in reads if not name.startswith(verbs)]
        assert others == ["ConsumerGroupDescribe"]

    def test_elections_add_two_and_no_more(self) -> None:
        assert api_keys.ELECT.isdisjoint(api_keys.READ)
        assert {
            ElectLeadersRequest.API_KEY,
            AlterPartitionReassignmentsRequest.API_KEY,
        } == api_keys.ELECT

    @pytest.mark.parametrize("request_class", FORBIDDEN, ids=lambda one: one.__name__)
    def test_nothing_else_leaves_not_even_a_connection(
        self, broker: FakeBroker, sender: Sender, request_class: Any
    ) -> None:
        with pytest.raises(ReadOnly, match="--write"):
            sender.call(ANY_BROKER, request_class(), MetadataResponse, Deadline.after(PATIENCE))
        assert (broker.connected, broker.frames) == (0, 0)

    def test_a_refusal_on_a_connection_in_use_sends_no_frame(
        self, broker: FakeBroker, sender: Sender
    ) -> None:
        ask(sender)
        before = broker.frames
        with pytest.raises(ReadOnly):
            sender.call(
                ANY_BROKER, ElectLeadersRequest(), MetadataResponse, Deadline.after(PATIENCE)
            )
        ask(sender)
        assert broker.frames == before + 1

    def test_what_an_election_needs_leaves_where_it_is_allowed(self, broker: FakeBroker) -> None:
        broker.serve(
            AlterPartitionReassignmentsRequest, lambda _: AlterPartitionReassignmentsResponse()
        )
        with closing(sender_to(broker, allowed=api_keys.READ | api_keys.ELECT)) as sender:
            sender.call(
                ANY_BROKER,
                AlterPartitionReassignmentsRequest(topics=[]),
                AlterPartitionReassignmentsResponse,
                Deadline.after(PATIENCE),
            )
        assert [received.api_key for received in broker.received] == [45]


class TestConnections:
    def test_one_serves_all_calls_of_a_lane(self, broker: FakeBroker, sender: Sender) -> None:
        for _ in range(3):
            ask(sender, 1)
        assert (broker.connected, len(broker.received)) == (1, 3)

    def test_a_lane_that_hangs_delays_no_other(self, broker: FakeBroker, sender: Sender) -> None:
        broker.serve(DescribeQuorumRequest, lambda _: None)

        def hang() -> None:
            with pytest.raises((TimedOut, ConnectFailed)):
                sender.call(
                    1,
                    DescribeQuorumRequest(topics=[]),
                    DescribeQuorumResponse,
                    Deadline.after(PATIENCE),
                    lane="quorum",
                )

        hanging = threading.Thread(target=hang)
        hanging.start()
        broker.wait_for(lambda: len(broker.received) == 1, "the request that hangs")
        assert ask(sender, 1, seconds=2.0).cluster_id == "here"
        sender.close()
        hanging.join(PATIENCE)
        assert not hanging.is_alive()

    def test_a_busy_lane_is_waited_for_until_the_deadline(
        self, broker: FakeBroker, sender: Sender
    ) -> None:
        broker.serve(MetadataRequest, lambda _: None)
        first = threading.Thread(target=lambda: swallow(ask, sender, 1, 1.0))
        first.start()
        broker.wait_for(lambda: len(broker.received) == 1, "the first request")
        with pytest.raises(TimedOut, match="b1 is still busy"):
            ask(sender, 1, seconds=0.1)
        first.join(PATIENCE)
        assert len(broker.received) == 1

    def test_a_request_whose_connection_breaks_is_not_sent_again(
        self, broker: FakeBroker, sender: Sender
    ) -> None:
        def hang_up(_: Any) -> Any:
            raise HangUp

        broker.serve(MetadataRequest, hang_up)
        with pytest.raises(ConnectFailed):
            ask(sender)
        assert len(broker.received) == 1

    def test_a_connection_that_the_broker_closed_while_idle_is_replaced_before_it_is_used(
        self, broker: FakeBroker, sender: Sender
    ) -> None:
        ask(sender)
        broker.drop_connections()
        broker.wait_for(lambda: broker.open == 0, "the connection to end")
        assert ask(sender).cluster_id == "here"
        assert broker.connected == 2

    def test_after_a_silence_the_late_answer_is_never_taken_for_the_next_one(
        self, broker: FakeBroker, sender: Sender
    ) -> None:
        replies: Iterator[Any] = iter([None, MetadataResponse(cluster_id="second")])
        broker.serve(MetadataRequest, lambda _: next(replies))
        with pytest.raises(TimedOut):
            ask(sender, seconds=0.1)
        assert ask(sender).cluster_id == "second"
        assert broker.connected == 2

    def test_silence_asked_for_is_kept_by_the_connection_that_was_asked(
        self, broker: FakeBroker, sender: Sender
    ) -> None:
        """KIP-219: giving up the wait must not lead around it."""
        broker.serve(MetadataRequest, lambda _: MetadataResponse(throttle_time_ms=400))
        ask(sender)
        for _ in range(2):
            with pytest.raises(TimedOut, match="throttles"):
                ask(sender, seconds=0.05)
        ask(sender)
        first, second = broker.received
        assert second.at - first.at >= 0.4
        assert broker.connected == 1

    def test_a_broker_without_address_is_named_with_the_way_to_give_one(
        self, sender: Sender
    ) -> None:
        with pytest.raises(ConnectFailed, match=r"--broker-address 7=HOST:PORT") as caught:
            ask(sender, 7)
        assert caught.value.reason == "no address known"

    def test_an_address_given_by_the_operator_wins_over_the_advertised_one(
        self, broker: FakeBroker
    ) -> None:
        with closing(sender_to(broker, broker_addresses={1: broker.endpoint})) as sender:
            sender.learn([Broker(1, "unreachable.invalid", 9092)])
            assert ask(sender, 1).cluster_id == "here"


class TestTheBootstrapBroker:
    @pytest.fixture
    def other(self) -> Iterator[FakeBroker]:
        with named("other") as other:
            yield other

    @pytest.fixture
    def to_both(self, broker: FakeBroker, other: FakeBroker) -> Iterator[Sender]:
        with closing(sender_to(broker, other)) as sender:
            assert ask(sender).cluster_id == "here"
            yield sender

    def test_it_is_asked_again_while_it_answers(
        self, broker: FakeBroker, other: FakeBroker, to_both: Sender
    ) -> None:
        ask(to_both, lane="another")
        assert (broker.connected, other.connected) == (2, 0)

    def test_another_takes_its_place_when_it_dies(
        self, broker: FakeBroker, to_both: Sender
    ) -> None:
        broker.stop()
        assert ask(to_both).cluster_id == "other"

    def test_another_takes_its_place_when_it_hangs(
        self, broker: FakeBroker, to_both: Sender
    ) -> None:
        """A second lane finds the known broker silent and does not wait for it long."""
        broker.serve(ApiVersionsRequest, lambda _: None)
        began = time.monotonic()
        assert ask(to_both, lane="another").cluster_id == "other"
        assert time.monotonic() - began < within(3.0)


class TestClosing:
    def test_it_ends_a_wait_in_another_thread(self, broker: FakeBroker, sender: Sender) -> None:
        broker.serve(MetadataRequest, lambda _: None)
        waiting = threading.Thread(target=lambda: swallow(ask, sender, 1))
        waiting.start()
        broker.wait_for(lambda: len(broker.received) == 1, "the request")
        began = time.monotonic()
        sender.close()
        waiting.join(PATIENCE)
        assert time.monotonic() - began < within(2.0)

    def test_nothing_is_opened_afterwards(self, broker: FakeBroker, sender: Sender) -> None:
        sender.close()
        with pytest.raises(ConnectFailed, match="closing"):
            ask(sender)
        assert broker.connected == 0

    def test_a_connection_that_was_being_opened_is_not_used_afterwards(
        self, broker: FakeBroker, sender: Sender
    ) -> None:
        """A hung broker that goes on later finds nobody."""
        go_on = threading.Event()

        def late(_: Any) -> Any:
            go_on.wait(PATIENCE)
            return ApiVersionsResponse(
                api_keys=[ApiVersionsResponse.ApiVersion(api_key=3, max_version=9)]
            )

        broker.serve(ApiVersionsRequest, late)
        waiting = threading.Thread(target=lambda: swallow(ask, sender, 1))
        waiting.start()
        broker.wait_for(lambda: broker.connected == 1, "the connection")
        sender.close()
        go_on.set()
        waiting.join(PATIENCE)
        broker.wait_for(lambda: broker.open == 0, "the connection to be closed")
        assert broker.received == []


class TestSasl:
    def security(self) -> ClientSecurity:
        login = SaslSettings("PLAIN", PasswordLogin("ann", Secret("secret")))
        return ClientSecurity(
            ConnectionSettings(
                (Endpoint("127.0.0.1", 1),),
                security_protocol=SecurityProtocol.SASL_PLAINTEXT,
                sasl=login,
            )
        )

    def offering(self, broker: FakeBroker, *mechanisms: str, lifetime_ms: int = 0) -> FakeBroker:
        answer = SaslHandshakeResponse(
            error_code=0 if "PLAIN" in mechanisms else 33, mechanisms=list(mechanisms)
        )
        broker.serve(SaslHandshakeRequest, lambda _: answer)
        return broker.serve(
            SaslAuthenticateRequest,
            lambda _: SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms),
        )

    def test_the_login_comes_before_everything_else(self, broker: FakeBroker) -> None:
        self.offering(broker, "PLAIN")
        with closing(sender_to(broker, security=self.security())) as sender:
            ask(sender)
        assert [received.api_key for received in broker.received] == [17, 36, 3]
        assert broker.requests(SaslAuthenticateRequest)[0].auth_bytes.endswith(b"\0ann\0secret")

    def test_a_mechanism_that_is_not_offered_is_told_with_those_that_are(
        self, broker: FakeBroker
    ) -> None:
        self.offering(broker, "SCRAM-SHA-512")
        with (
            closing(sender_to(broker, security=self.security())) as sender,
            pytest.raises(AuthenticationFailed, match=r"PLAIN \(it offers SCRAM-SHA-512\)"),
        ):
            ask(sender)

    def test_a_session_about_to_end_is_left_for_a_new_connection(
        self, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """KIP-368: the broker would cut it off."""
        monkeypatch.setattr(connection, "REAUTHENTICATE_AT", 0.0)
        self.offering(broker, "PLAIN", lifetime_ms=60_000)
        with closing(sender_to(broker, security=self.security())) as sender:
            ask(sender)
            ask(sender)
        assert broker.connected == 2


def swallow(call: Any, *arguments: Any) -> None:
    """Call in a thread of its own, whose end alone matters."""
    try:
        call(*arguments)
    except (TimedOut, ConnectFailed):
        return
