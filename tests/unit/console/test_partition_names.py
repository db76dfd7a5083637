"""Partitions and leaders as they are written on a command line."""

from __future__ import annotations

import pytest

from breakglass.console.partition_names import leaders_named, partitions_named
from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition

KNOWN = [TopicPartition("orders", 0), TopicPartition("orders", 7), TopicPartition("a-b.c_1-2", 3)]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("orders-0", [KNOWN[0]]),
        ("orders-*", KNOWN[:2]),
        ("a-b.c_1-2-3", [KNOWN[2]]),
        ("a-b.c_1-2-*", [KNOWN[2]]),
        ("unheard-of-5", [TopicPartition("unheard-of", 5)]),
    ],
)
def test_a_name_means_one_partition_or_all_of_a_topic(
    name: str, meant: list[TopicPartition]
) -> None:
    assert list(partitions_named([name], KNOWN)) == meant


def test_a_partition_named_twice_is_meant_once() -> None:
    assert partitions_named(["orders-7", "orders-*"], KNOWN) == (KNOWN[1], KNOWN[0])


@pytest.mark.parametrize(
    "name", ["orders", "orders-", "-3", "orders-x", "orders-+1", "", "carts-*"]
)
def test_what_is_no_partition_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        partitions_named([name], KNOWN)


@pytest.mark.parametrize("broker", ["2", "b2"])
def test_a_leader_is_written_by_its_id_or_as_it_is_shown(broker: str) -> None:
    assert leaders_named([f"orders-*={broker}"], KNOWN) == {KNOWN[0]: 2, KNOWN[1]: 2}


@pytest.mark.parametrize("text", ["orders-0", "orders-0=", "orders-0=x", "=2", "orders-0=-1"])
def test_what_names_no_leader_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        leaders_named([text], KNOWN)


def test_two_leaders_for_one_partition_are_refused() -> None:
    with pytest.raises(UsageError, match="orders-0"):
        leaders_named(["orders-*=1", "orders-0=2"], KNOWN)
    assert leaders_named(["orders-*=1", "orders-0=1"], KNOWN) == {KNOWN[0]: 1, KNOWN[1]: 1}
