"""Addresses as operators write them, and the listeners that brokers advertise."""

from pathlib import Path

import pytest

from breakglass.services.connection.endpoint import (
    Endpoint,
    KnownAddresses,
    listener_endpoints,
    parse_endpoint,
)
from breakglass.services.errors import BadConnectionSettings
from breakglass.services.snapshot import Broker


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


def test_a_listener_is_chosen_by_name_in_any_case_and_one_that_is_lacking_is_refused() -> None:
    advertised = {1: "INTERNAL://i:9092,EXTERNAL://b1:9094", 2: "EXTERNAL://b2:9094, VPN://v:9"}
    chosen = {1: Endpoint("b1", 9094), 2: Endpoint("b2", 9094)}
    assert listener_endpoints("external", advertised) == chosen
    with pytest.raises(BadConnectionSettings, match=r"broker 2 .*EXTERNAL, VPN"):
        listener_endpoints("INTERNAL", advertised)


GIVEN = Endpoint("b1", 9092)
SECOND, THIRD = Endpoint("b2", 9092), Endpoint("b3", 9092)


def brokers(*ids: int, suffix: str = "") -> list[Broker]:
    return [Broker(id, f"b{id}{suffix}", 9092) for id in ids]


def test_once_a_cluster_is_known_no_other_one_is_learned() -> None:
    known = KnownAddresses([GIVEN])
    known.learn("one", brokers(1, 2))
    known.learn("other", brokers(1, 3))
    assert known.others() == {1: GIVEN, 2: SECOND}
    assert known.is_misled("other")
    assert not known.is_misled("one")


def test_another_address_is_told_nothing_of_a_cluster_that_it_never_led_to(tmp_path: Path) -> None:
    KnownAddresses([GIVEN], tmp_path).learn("one", brokers(1, 2))
    assert KnownAddresses([SECOND], tmp_path).others() == {}
    assert not KnownAddresses([SECOND], tmp_path).is_misled("other")


def test_files_that_no_session_wrote_are_left_alone_and_a_folder_that_cannot_be_written_too(
    tmp_path: Path,
) -> None:
    for number, text in enumerate(("", "[]", '{"schema": 2}', '{"schema": 1, "at_ns": "x"}')):
        (tmp_path / f"{number}.json").write_text(text)
    known = KnownAddresses([GIVEN], tmp_path)
    assert known.others() == {}
    no_folder = tmp_path / "0.json"
    KnownAddresses([GIVEN], no_folder).learn("one", brokers(1))
    known.learn("one", brokers(1, 2))
    (written,) = tmp_path.glob("cluster-*.json")
    assert written.stat().st_mode & 0o777 == 0o600
    assert KnownAddresses([GIVEN], tmp_path).others() == {1: GIVEN, 2: SECOND}
