"""Addresses as operators write them, and the listeners that brokers advertise."""

from __future__ import annotations

import pytest

from breakglass.services.connection.endpoint import (
    Endpoint,
    listener_endpoints,
    parse_broker_addresses,
    parse_endpoint,
    parse_endpoints,
)
from breakglass.services.errors import BadConnectionSettings


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("b1:9092", Endpoint("b1", 9092)),
        (" b1.prod.example:9092 ", Endpoint("b1.prod.example", 9092)),
        ("10.0.0.1:9092", Endpoint("10.0.0.1", 9092)),
        ("[::1]:9092", Endpoint("::1", 9092)),
        ("SASL_SSL://b1:9093", Endpoint("b1", 9093)),
        ("EXTERNAL://[fe80::1%eth0]:9093", Endpoint("fe80::1%eth0", 9093)),
    ],
)
def test_what_kafka_takes_as_an_address_is_taken(text: str, endpoint: Endpoint) -> None:
    assert parse_endpoint(text, "--bootstrap-server") == endpoint


@pytest.mark.parametrize(
    "text", ["b1", "b1:", ":9092", "b1:0", "b1:65536", "b1:kafka", "b1:9092/path", "b 1:9092", ""]
)
def test_anything_else_is_refused_with_its_origin_and_an_example(text: str) -> None:
    with pytest.raises(BadConnectionSettings, match=r"^--bootstrap-server: .*HOST:PORT"):
        parse_endpoint(text, "--bootstrap-server")


def test_a_list_keeps_its_order_and_forgives_spare_commas() -> None:
    assert parse_endpoints("b2:2, b1:1,,", "here") == (Endpoint("b2", 2), Endpoint("b1", 1))


def test_a_list_without_an_address_is_refused() -> None:
    with pytest.raises(BadConnectionSettings):
        parse_endpoints(" , ", "here")


def test_an_ipv6_address_is_written_with_brackets() -> None:
    assert str(Endpoint("::1", 9092)) == "[::1]:9092"
    assert str(Endpoint("b1", 9092)) == "b1:9092"


def test_broker_addresses_are_by_id() -> None:
    addresses = parse_broker_addresses(["1=localhost:19091", " 12 = [::1]:19092"], "flag")
    assert addresses == {1: Endpoint("localhost", 19091), 12: Endpoint("::1", 19092)}


@pytest.mark.parametrize("text", ["localhost:19091", "=b1:1", "b1=b1:1", "-1=b1:1", "²=b1:1"])
def test_a_broker_address_needs_an_id(text: str) -> None:
    with pytest.raises(BadConnectionSettings, match="ID=HOST:PORT"):
        parse_broker_addresses([text], "--broker-address")


def test_a_broker_given_twice_is_refused() -> None:
    with pytest.raises(BadConnectionSettings):
        parse_broker_addresses(["1=a:1", "1=b:2"], "--broker-address")


def test_a_tunnel_is_certified_under_the_name_of_what_it_leads_to() -> None:
    tunnel = Endpoint("localhost", 19091)
    assert tunnel.certified_name == "localhost"
    assert tunnel.standing_for("b1.prod").certified_name == "b1.prod"
    assert str(tunnel.standing_for("b1.prod")) == "localhost:19091"


def test_a_listener_is_chosen_by_name_in_any_case() -> None:
    advertised = {
        1: "INTERNAL://b1.internal:9092,EXTERNAL://b1.example:9094",
        2: "EXTERNAL://b2.example:9094, INTERNAL://b2.internal:9092",
    }
    assert listener_endpoints("external", advertised) == {
        1: Endpoint("b1.example", 9094),
        2: Endpoint("b2.example", 9094),
    }


def test_a_listener_that_a_broker_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(BadConnectionSettings, match=r"broker 2 .*INTERNAL, VPN"):
        listener_endpoints("EXTERNAL", {1: "EXTERNAL://a:1", 2: "VPN://b:1,INTERNAL://b:2"})
