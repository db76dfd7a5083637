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
    assert parse_endpoints("b2:2, [::1]:1,,", "here") == (Endpoint("b2", 2), Endpoint("::1", 1))
    assert str(Endpoint("::1", 9092)) == "[::1]:9092"
    with pytest.raises(BadConnectionSettings):
        parse_endpoints(" , ", "here")


@pytest.mark.parametrize(
    "text", ["localhost:19091", "=b1:1", "b1=b1:1", "-1=b1:1", "²=b1:1", "1=b:2"]
)
def test_a_broker_address_needs_an_id_of_its_own(text: str) -> None:
    with pytest.raises(BadConnectionSettings):
        parse_broker_addresses(["1=a:1", text], "--broker-address")


def test_a_listener_is_chosen_by_name_in_any_case_and_one_that_is_lacking_is_refused() -> None:
    advertised = {1: "INTERNAL://i:9092,EXTERNAL://b1:9094", 2: "EXTERNAL://b2:9094, VPN://v:9"}
    chosen = {1: Endpoint("b1", 9094), 2: Endpoint("b2", 9094)}
    assert listener_endpoints("external", advertised) == chosen
    with pytest.raises(BadConnectionSettings, match=r"broker 2 .*EXTERNAL, VPN"):
        listener_endpoints("INTERNAL", advertised)
