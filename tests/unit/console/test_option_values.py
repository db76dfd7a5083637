"""What texts of options stand for, and the sentence for one that stands for nothing."""

from collections.abc import Callable

import pytest

from breakglass.console.option_values import (
    amount,
    broker_ids,
    leaders_named,
    moment_ms,
    names_in,
    pairs_in,
    partitions_named,
    spread,
)
from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.words.figures import duration_ms


def test_names_stand_between_commas_and_a_pair_ends_at_its_first_equals_sign() -> None:
    assert names_in(" a, b,,c ") == ("a", "b", "c")
    assert names_in(["a,b", "c", "b"]) == ("a", "b", "c")
    assert names_in(None) == names_in([]) == ()
    for none in ("", [""], [" , "], ["kee*"], ["a", "b?"]):
        with pytest.raises(UsageError):
            names_in(none)
    assert pairs_in(["a=b=c"], "--map") == {"a": "b=c"}
    age = amount("--age", duration_ms)
    assert (age("30d"), age(5)) == (2_592_000_000, 5)


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


@pytest.mark.parametrize("text", ["3600000", "1970-01-01T01:00", "1970-01-01T03:00+02:00"])
def test_a_moment_is_milliseconds_or_utc_unless_it_says_otherwise(text: str) -> None:
    assert moment_ms(text, "--until-time") == 3_600_000
    assert moment_ms(None, "--until-time") is None


@pytest.mark.parametrize(
    "written", [["4 7"], ["4,7"], ["4", "7"], ["b4, b7"], ["4", "b7,4"], ["4,", "7"]]
)
def test_brokers_are_written_with_blanks_with_commas_and_again_and_again(
    written: list[str],
) -> None:
    assert broker_ids(written, "--gone") == (4, 7)
    assert broker_ids(None, "--gone") == ()


@pytest.mark.parametrize(
    ("line", "spread_out"),
    [
        ("--gone 4 7 --json", "--gone 4 --gone 7 --json"),
        ("--gone b4,2 7 8", "--gone b4,2 --gone 7 --gone 8"),
        ("--gone=4 7", "--gone=4 --gone 7"),
        ("--gone 4 --topic 5 6", "--gone 4 --topic 5 6"),
        ("--gone 4 plan.json 7", "--gone 4 plan.json 7"),
        ("--topic --gone 4", "--topic --gone 4"),
        ("4 7", "4 7"),
    ],
)
def test_ids_behind_an_option_are_all_its_own(line: str, spread_out: str) -> None:
    assert spread(line.split(), "--gone") == spread_out.split()


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
