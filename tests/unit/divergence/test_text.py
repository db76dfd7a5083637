"""Differences within a text: nothing that is the same is marked, and any text is done in time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.divergence.text import Span, differences, lines_beside

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
    assert time.process_time() - begun < 1.0
