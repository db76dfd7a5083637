"""Partitions and leaders as they are written on a command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from breakglass.console.partition_names import leaders_named, partitions_named
from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition

KNOWN = [TopicPartition("orders", 0), TopicPartition("orders", 7), TopicPartition("a-b.c_1-2", 3)]


@pytest.mark.parametrize(
    ("names", "meant"),
    [
        (["orders-0"], [KNOWN[0]]),
        (["orders-*"], KNOWN[:2]),
        (["orders-7", "orders-*"], [KNOWN[1], KNOWN[0]]),
        (["a-b.c_1-2-3"], [KNOWN[2]]),
        (["a-b.c_1-2-*"], [KNOWN[2]]),
        (["unheard-of-5"], [TopicPartition("unheard-of", 5)]),
    ],
)
def test_a_name_means_one_partition_or_all_of_a_topic_once(
    names: list[str], meant: list[TopicPartition]
) -> None:
    assert list(partitions_named(names, KNOWN)) == meant


NO_NAMES = ("orders", "orders-", "-3", "orders-x", "orders-+1", "", "carts-*")
NO_LEADERS = ("orders-0", "orders-0=", "orders-0=x", "=2", "orders-0=-1", "orders-*=1 orders-0=2")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *((partitions_named, name) for name in NO_NAMES),
        *((leaders_named, name) for name in NO_LEADERS),
    ],
)
def test_what_is_no_partition_no_leader_or_two_leaders_is_refused(
    read: Callable[..., object], text: str
) -> None:
    with pytest.raises(UsageError):
        read(text.split(" "), KNOWN)
