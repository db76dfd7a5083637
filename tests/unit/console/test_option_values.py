"""What texts of options stand for, and the sentence for one that stands for nothing."""

from collections.abc import Callable

import pytest

from breakglass.console.option_values import (
    amount,
    broker_ids,
    leaders_named,
    moment_ms,
    pairs_in,
    partitions_named,
)
from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.words.figures import duration_ms


@pytest.mark.parametrize(
    ("option", "read", "texts"),
    [
        ("--map", lambda text: pairs_in([text], "--map", form="OLD=NEW"), ["a", "=b", "a="]),
        ("--age", amount("--age", duration_ms), ["soon"]),
        ("--time", lambda text: moment_ms(text, "--time"), ["", "noon", "-1", "1970-13-01"]),
        ("--gone", lambda text: broker_ids(text.split(), "--gone"), ["four", "4 -1", "4;7"]),
    ],
)
def test_what_stands_for_nothing_is_refused_with_its_option(
    option: str, read: Callable[[str], object], texts: list[str]
) -> None:
    for text in texts:
        with pytest.raises(UsageError, match=option):
            read(text)


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
