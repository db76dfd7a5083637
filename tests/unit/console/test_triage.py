"""`triage` against fake brokers: what is refused before anything is judged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.protocol.admin import DescribeQuorumRequest

from tests.kit.fake_metadata import CLUSTER_ID
from tests.unit.console.fakes import Fakes, fakes


@pytest.fixture
def broken() -> Iterator[Fakes]:
    with fakes() as made:
        yield made


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_topic_that_the_cluster_has_not_is_refused_by_name(
    broken: Fakes, more: list[str]
) -> None:
    broken.offline("orders")
    ended = broken.run("triage", "--topics", "orders", "--topics", "no-such", *more)
    assert (ended.code, ended.out) == (2, "")
    assert f"Cluster {CLUSTER_ID} has no topic no-such: correct the name" in ended.said[-1]


def test_r20_brokers_whose_controllers_are_silent_do_not_know_that_nothing_is_offline(
    broken: Fakes,
) -> None:
    for broker in broken.cluster.brokers.values():
        broker.serve(DescribeQuorumRequest, lambda _: None)
    said = broken.run("triage").said
    assert (
        "No partition is offline as far as this broker knows; the controllers do not answer it."
    ) in said


def test_partitions_that_fared_alike_are_one_row_unless_each_is_wanted(broken: Fakes) -> None:
    broken.offline("orders", 5)
    (row,) = broken.run("triage").out.splitlines()[1:]
    assert row.startswith("WAIT     reconnect b3  orders-0..4 (5)  b1 ")
    rows = broken.run("triage", "--each").out.splitlines()[1:]
    assert [name for row in rows for name in row.split() if "orders" in name] == [
        f"orders-{number}" for number in range(5)
    ]


def test_nothing_is_said_to_be_switched_off_that_was_not(broken: Fakes) -> None:
    assert "switched off" not in broken.run("triage").err
    assert "stock requests: switched off by --native-rpc off" in (
        broken.run("triage", "--native-rpc", "off").err
    )


def test_a_choice_of_requests_that_is_none_is_refused_where_nothing_is_offline_too(
    broken: Fakes,
) -> None:
    ended = broken.run("triage", "--native-rpc", "foo")
    assert ended.code == 2
    assert "--native-rpc takes auto, off, or the api key" in ended.err


def test_a_brief_document_judges_the_same_partitions_alike_without_their_replicas(
    broken: Fakes,
) -> None:
    broken.offline("orders", 5)
    whole = broken.run("triage", "--json").document
    brief = broken.run("triage", "--json", "--brief").document
    assert {**brief, "partitions": [], "observed_at_ms": 0} == {
        **whole,
        "partitions": [],
        "observed_at_ms": 0,
    }
    for partition, short in zip(whole["partitions"], brief["partitions"], strict=True):
        assert partition["replicas"]
        assert "replicas" not in short
        assert {name: partition[name] for name in short} == short
        assert short["verdict"] == "WAIT"


def test_brief_without_json_is_refused(broken: Fakes) -> None:
    ended = broken.run("triage", "--brief")
    assert (ended.code, ended.out) == (2, "")
    assert "--brief shortens the document of --json: give both" in ended.err
