"""Addresses, texts and contents compared, and the two replicas that face each other."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.divergence.address import SourceAddress, SourceKind, parse_address
from breakglass.services.divergence.entry import DETAIL, ROWS, Keep, content_of, headers_of
from breakglass.services.divergence.opening import refusal
from breakglass.services.divergence.replicas import default_pair, face
from breakglass.services.divergence.source import Extent
from breakglass.services.divergence.text import Span, differences, lines_beside
from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.topic_backup.record import Headers
from tests.unit.recovery.replicas import PLAIN, log, offline, silent, without_epochs
from tests.unit.topic_backup import shapes

GOOD = {
    "backup:/mnt/b/orders/0": SourceAddress(SourceKind.BACKUP, "/mnt/b", "orders", 0),
    "backup:s3://bucket/b/orders~2/12": SourceAddress(
        SourceKind.BACKUP, "s3://bucket/b", "orders~2", 12
    ),
    "backup:/orders/0": SourceAddress(SourceKind.BACKUP, "/", "orders", 0),
    "rescue:r/b1/ledger/3": SourceAddress(SourceKind.RESCUE, "r/b1", "ledger", 3),
    "topic:orders/0": SourceAddress(SourceKind.TOPIC, "", "orders", 0),
    "replica:2/orders/0": SourceAddress(SourceKind.REPLICA, "2", "orders", 0),
    "replica:b2/orders/0": SourceAddress(SourceKind.REPLICA, "2", "orders", 0),
    "log:/data/my-topic-7": SourceAddress(SourceKind.LOG, "/data", "my-topic", 7),
    "checkpoint:/mnt/c/17/orders/0": SourceAddress(SourceKind.CHECKPOINT, "/mnt/c/17", "orders", 0),
    "metastore:/mnt/m/commands.bak": SourceAddress(
        SourceKind.METASTORE, "/mnt/m/commands.bak", "", 0
    ),
    "log:orders-0": SourceAddress(SourceKind.LOG, ".", "orders", 0),
}


@pytest.mark.parametrize("text", GOOD)
def test_an_address_is_read(text: str) -> None:
    assert parse_address(text) == GOOD[text]


@pytest.mark.parametrize(
    "text", [text for text in GOOD if "b2" not in text and text[:5] != "log:o"]
)
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    if text != "backup:/orders/0":
        assert str(GOOD[text]) == text


@pytest.mark.parametrize(
    "text",
    [
        "orders/0",
        "s3://b/orders/0",
        "backup:orders/0",
        "backup:/b/orders/x",
        "topic:orders",
        "replica:orders/0",
        "replica:x/orders/0",
        "checkpoint:/mnt/c/orders/0",
        "metastore:",
        "log:/data/orders",
        "log:/data/orders-x",
    ],
)
def test_what_is_no_address_says_what_is_missing(text: str) -> None:
    with pytest.raises(UsageError):
        parse_address(text)


def test_only_sources_of_one_partition_have_offsets_in_common() -> None:
    one, other = parse_address("topic:orders/0"), parse_address("log:/data/orders-0")
    assert refusal(one, other) == ""
    assert "no offsets in common" in refusal(one, parse_address("topic:orders/1"))


def test_a_metastore_has_positions_in_common_with_a_command_topic() -> None:
    file = parse_address("metastore:/m")
    assert refusal(file, parse_address("topic:commands/0")) == ""
    assert refusal(file, parse_address("metastore:/other")) == ""
    assert refusal(parse_address("topic:orders/1"), file)


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


def test_without_epochs_two_replicas_are_compared_from_their_start() -> None:
    facing = face(offline(log(1, (0, 100)), without_epochs(2, 120)), 1, 2)
    assert not isinstance(facing, Unknown)
    assert isinstance(facing.divergence, Unknown)
    assert (facing.begin, facing.proven_same) == (0, None)


@pytest.mark.parametrize(
    ("right", "words"), [(3, "b3 does not answer"), (7, "b7 holds no replica of ledger-0")]
)
def test_a_replica_that_cannot_be_read_is_refused_with_the_reason(right: int, words: str) -> None:
    refused = face(LEDGER, 1, right)
    assert isinstance(refused, Unknown)
    assert words in refused.reason


def test_the_best_is_compared_with_the_one_that_loses_most() -> None:
    three = offline(log(1, (0, 100), (2, 125)), log(2, (0, 110)), log(4, (0, 100), (1, 150)))
    assert default_pair(three, 1) == (1, 4)
    assert default_pair(three, 4) == (4, 1)
    assert default_pair(three, 3) == (1, 4)


def test_the_logs_of_one_broker_alone_cannot_be_compared() -> None:
    told = default_pair(offline(log(1, (0, 100)), silent(2), silent(3)), 1)
    assert isinstance(told, Unknown)
    assert told.reason.endswith("b1")


PROCESSOR_SECONDS = 10.0
"""Ten times what it takes; what is quadratic takes minutes."""
texts = st.text(st.sampled_from("ab ,\n\u202e"), max_size=60) | st.text(max_size=60)
lines = st.lists(st.sampled_from(["{", "}", '  "a": 1', '  "a": 2', ""]), max_size=12)


def left_over(text: str, spans: tuple[Span, ...]) -> str:
    """*text* without its spans."""
    kept, at = "", 0
    for start, end in spans:
        assert at <= start < end <= len(text)
        kept, at = kept + text[at:start], end
    return kept + text[at:]


@given(texts, texts)
def test_what_is_not_marked_is_the_same_on_both_sides(one: str, other: str) -> None:
    ours, theirs = differences(one, other)
    assert left_over(one, ours) == left_over(other, theirs)
    assert bool(ours or theirs) == (one != other)


@pytest.mark.parametrize(
    ("one", "other", "ours", "theirs"),
    [
        ("amount: 100", "amount: 105", ["0"], ["5"]),
        ("r-100@ledger-0", "s-100@ledger-0", ["r"], ["s"]),
        ("to be", "to be or not", [], [" or not"]),
        ("", "x", [], ["x"]),
    ],
)
def test_a_difference_is_told_to_the_character(
    one: str, other: str, ours: list[str], theirs: list[str]
) -> None:
    told = differences(one, other)
    assert [one[start:end] for start, end in told[0]] == ours
    assert [other[start:end] for start, end in told[1]] == theirs


@given(lines, lines)
def test_every_line_stands_on_its_side_once_and_the_same_ones_beside_each_other(
    left: list[str], right: list[str]
) -> None:
    pairs = list(lines_beside(left, right))
    assert [pair.left for pair in pairs if pair.left is not None] == left
    assert [pair.right for pair in pairs if pair.right is not None] == right


def test_a_line_more_leaves_the_others_beside_each_other() -> None:
    pairs = list(lines_beside(["{", "1", "}"], ["{", "0", "1", "}"]))
    assert [(pair.left, pair.right) for pair in pairs] == [
        ("{", "{"), (None, "0"), ("1", "1"), ("}", "}")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a" * 20_000, "b" * 20_000),
        ("ab" * 10_000, "ba" * 10_000 + "c"),
        (" a" * 300, "a " * 301),
        ("x" * 250 + " " + "y" * 800, "y" * 700 + "\t" + "x" * 251),
    ],
)
def test_the_worst_texts_are_done_at_once(one: str, other: str) -> None:
    begun = time.process_time()
    differences(one, other)
    list(lines_beside(one.split("b"), other.split("b")))
    assert time.process_time() - begun < PROCESSOR_SECONDS


TIGHT = Keep(value=4, headers=2)
small = st.binary(max_size=8) | st.none()


@given(small, small)
def test_two_contents_are_equal_exactly_when_all_of_their_bytes_are(
    one: bytes | None, other: bytes | None
) -> None:
    assert (content_of(one, 4) == content_of(other, 4)) == (one == other)


@given(shapes.headers, shapes.headers)
def test_two_lists_of_headers_are_equal_exactly_when_all_headers_are(
    one: Headers, other: Headers
) -> None:
    assert (headers_of(one, TIGHT) == headers_of(other, TIGHT)) == (one == other)


def test_headers_that_join_to_the_same_bytes_differ() -> None:
    filler = ((b"h", b""),) * 2
    one = headers_of((*filler, (b"a", b"bc")), TIGHT)
    assert one != headers_of((*filler, (b"ab", b"c")), TIGHT)
    assert one != headers_of((*filler, (b"abc", None)), TIGHT)


def test_ten_megabytes_are_held_in_their_first_bytes() -> None:
    whole = bytes(10_000_000)
    tracemalloc.start()
    try:
        held = content_of(whole, ROWS.value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held is not None
    assert (len(held.kept), held.size) == (ROWS.value, 10_000_000)
    assert peak < 10_000


def test_a_hundred_thousand_headers_are_held_as_the_first_few_and_their_number() -> None:
    held = headers_of(((b"h", b"v"),) * 100_000, DETAIL)
    assert (len(held.kept), held.count) == (DETAIL.headers, 100_000)


def test_generations_are_of_their_topic() -> None:
    assert parse_address("backup:/b/orders~2/3").topic_partition == TopicPartition("orders", 3)
