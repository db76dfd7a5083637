"""`triage` against fake brokers: what is refused before anything is judged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.protocol.admin import DescribeQuorumRequest

from tests.fake_metadata import CLUSTER_ID
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
    ended = broken.run("triage", "--topic", "orders", "--topic", "no-such", *more)
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
