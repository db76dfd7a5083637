"""Addresses, texts and contents compared, and the two replicas that face each other."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.divergence.address import SourceAddress, SourceKind, parse_address
from breakglass.services.divergence.entry import (
    Keep,
    content_of,
    differences,
    headers_of,
    lines_beside,
)
from breakglass.services.divergence.opening import refusal
from breakglass.services.divergence.replica_source import default_pair, face
from breakglass.services.divergence.source import Extent
from breakglass.services.errors import UsageError
from breakglass.services.model import Unknown
from tests.unit.recovery.replicas import PLAIN, log, offline, silent

GOOD = {
    "backup:/mnt/b/orders/0": ("backup", "/mnt/b", "orders", 0),
    "backup:s3://bucket/b/orders~2/12": ("backup", "s3://bucket/b", "orders~2", 12),
    "backup:/orders/0": ("backup", "/", "orders", 0),
    "rescue:r/b1/ledger/3": ("rescue", "r/b1", "ledger", 3),
    "topic:orders/0": ("topic", "", "orders", 0),
    "replica:2/orders/0": ("replica", "2", "orders", 0),
    "replica:b2/orders/0": ("replica", "2", "orders", 0),
    "log:/data/my-topic-7": ("log", "/data", "my-topic", 7),
    "checkpoint:/mnt/c/17/orders/0": ("checkpoint", "/mnt/c/17", "orders", 0),
    "metastore:/mnt/m/commands.bak": ("metastore", "/mnt/m/commands.bak", "", 0),
    "log:orders-0": ("log", ".", "orders", 0),
}


@pytest.mark.parametrize("text", GOOD)
def test_an_address_is_read_and_written_as_it_is_read(text: str) -> None:
    kind, path, topic, partition = GOOD[text]
    address = parse_address(text)
    assert address == SourceAddress(SourceKind(kind), path, topic, partition)
    assert str(address) == text or text in (
        "backup:/orders/0",
        "replica:b2/orders/0",
        "log:orders-0",
    )
    assert not topic or address.topic_partition.topic == topic.partition("~")[0]


@pytest.mark.parametrize(
    "text",
    [
        *("orders/0", "s3://b/orders/0", "backup:orders/0", "backup:/b/orders/x", "topic:orders"),
        *("replica:orders/0", "replica:x/orders/0", "checkpoint:/mnt/c/orders/0", "metastore:"),
        *("log:/data/orders", "log:/data/orders-x"),
    ],
)
def test_what_is_no_address_says_what_is_missing(text: str) -> None:
    with pytest.raises(UsageError):
        parse_address(text)


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("topic:orders/0", "log:/data/orders-0", True),
        ("topic:orders/0", "topic:orders/1", False),
        ("metastore:/m", "topic:commands/0", True),
        ("metastore:/m", "metastore:/other", True),
        ("topic:orders/1", "metastore:/m", False),
    ],
)
def test_sources_with_positions_in_common_compare(one: str, other: str, together: bool) -> None:
    assert (refusal(parse_address(one), parse_address(other)) == "") is together


LEDGER = offline(
    log(1, (0, 100), (2, 125)), log(2, (0, 100), (1, 150)), silent(3), topic="ledger", number=0
)


def test_two_replicas_face_each_other_around_their_divergence() -> None:
    facing = face(LEDGER, 1, 2)
    assert not isinstance(facing, Unknown)
    assert (facing.divergence, facing.begin, facing.extent) == (100, 100, Extent(0, 150))
    assert facing.proven_same == Extent(0, 100)


def test_what_only_one_side_has_before_the_other_begins_is_not_proven() -> None:
    facing = face(offline(log(1, (0, 100), start=30), log(2, (0, 120))), 1, 2)
    assert not isinstance(facing, Unknown)
    assert facing.proven_same == Extent(30, 100)


def test_on_a_compacted_topic_nothing_is_proven() -> None:
    compacted = replace(LEDGER, settings=replace(PLAIN, compacted=True))
    facing = face(compacted, 1, 2)
    assert not isinstance(facing, Unknown)
    assert (facing.proven_same, facing.divergence) == (None, 100)


@pytest.mark.parametrize(
    ("right", "words"), [(3, "b3 does not answer"), (7, "b7 holds no replica of ledger-0")]
)
def test_a_replica_that_cannot_be_read_is_refused_with_the_reason(right: int, words: str) -> None:
    refused = face(LEDGER, 1, right)
    assert isinstance(refused, Unknown)
    assert words in refused.reason


def test_the_best_is_compared_with_the_one_that_loses_most() -> None:
    three = offline(log(1, (0, 100), (2, 125)), log(2, (0, 110)), log(4, (0, 100), (1, 150)))
    assert [default_pair(three, best) for best in (1, 4, 3)] == [(1, 4), (4, 1), (1, 4)]
    alone = default_pair(offline(log(1, (0, 100)), silent(2), silent(3)), 1)
    assert isinstance(alone, Unknown)


texts = st.text(st.sampled_from("ab ,\n\u202e"), max_size=60) | st.text(max_size=60)
lines = st.lists(st.sampled_from(["{", "}", '  "a": 1', '  "a": 2', ""]), max_size=12)


@pytest.mark.parametrize(
    ("one", "other", "ours", "theirs"),
    [
        ("amount: 100", "amount: 105", ["0"], ["5"]),
        ("r-100@ledger-0", "s-100@ledger-0", ["r"], ["s"]),
        ("to be", "to be or not", [], [" or not"]),
        ("", "x", [], ["x"]),
    ],
)
def test_a_difference_is_to_the_character(
    one: str, other: str, ours: list[str], theirs: list[str]
) -> None:
    told = differences(one, other)
    assert [one[start:end] for start, end in told[0]] == ours
    assert [other[start:end] for start, end in told[1]] == theirs


@given(lines, lines)
def test_every_line_stands_once_beside_its_like(left: list[str], right: list[str]) -> None:
    pairs = list(lines_beside(left, right))
    assert [pair.left for pair in pairs if pair.left is not None] == left
    assert [pair.right for pair in pairs if pair.right is not None] == right


TIGHT = Keep(value=4, headers=2)
small = st.binary(max_size=8) | st.none()


@given(small, small)
def test_contents_are_equal_when_their_bytes_are(one: bytes | None, other: bytes | None) -> None:
    assert (content_of(one, 4) == content_of(other, 4)) == (one == other)


def test_headers_that_join_to_the_same_bytes_differ() -> None:
    filler = ((b"h", b""),) * 2
    one = headers_of((*filler, (b"a", b"bc")), TIGHT)
    assert one != headers_of((*filler, (b"ab", b"c")), TIGHT)
    assert one != headers_of((*filler, (b"abc", None)), TIGHT)
