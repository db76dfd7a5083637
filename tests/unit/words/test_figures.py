"""Figures say what is exact, what is about, what is unknown and what is none."""

from __future__ import annotations

import pytest

from breakglass.services.model import Role, Unknown
from breakglass.services.recovery.judgement.loss import UnreadRecords
from breakglass.services.words.figures import (
    count,
    shown,
    total_text,
    unread_figure,
    unread_told,
    unread_total,
)
from breakglass.services.words.moments import time_text

SILENT = Unknown("b3 is silent")


@pytest.mark.parametrize(
    ("value", "cell"),
    [(SILENT, "?"), (None, "-"), (0, "0"), (True, "yes"), (Role.ISR, "isr")],
)
def test_a_cell_tells_unknown_none_and_zero_apart(value: object, cell: str) -> None:
    assert shown(value) == cell


@pytest.mark.parametrize(("value", "text"), [(SILENT, "?"), (None, "-"), (0, "0"), (1874, "1,874")])
def test_a_count_tells_unknown_none_and_zero_apart(value: int | Unknown | None, text: str) -> None:
    assert count(value) == text


@pytest.mark.parametrize(
    ("values", "text"), [([1, 2], "3"), ([1, SILENT], ">= 1"), ([SILENT], "?"), ([], "0")]
)
def test_a_sum_with_a_part_unknown_is_a_lower_bound(values: list[int | Unknown], text: str) -> None:
    assert total_text(values) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(SILENT, "?"), (None, "-"), (-1, "-"), (0, "1970-01-01 00:00:00Z"), (1 << 62, str(1 << 62))],
)
def test_a_time_is_utc_and_a_mad_one_is_its_figure(
    milliseconds: int | Unknown | None, text: str
) -> None:
    assert time_text(milliseconds) == text


@pytest.mark.parametrize(
    ("brokers", "at_least", "text"),
    [
        ((), 0, "0"),
        ((3,), 0, "b3"),
        ((3,), SILENT, "b3"),
        ((2, 3), 1_234, "b2,b3 >= 1,234"),
        ((2, 3, 4), 0, "3 brokers"),
        ((), 25, ">= 25"),
    ],
)
def test_who_is_unread_is_named_and_a_bound_of_zero_is_not_said(
    brokers: tuple[int, ...], at_least: int | Unknown, text: str
) -> None:
    assert unread_figure(brokers, at_least) == text


@pytest.mark.parametrize(
    ("bounds", "text", "sentence"),
    [
        ([UnreadRecords((), 0)], "0", "nothing unread"),
        ([UnreadRecords((3,), 0)], "b3", "b3 unread"),
        ([UnreadRecords((3,), SILENT)], "b3", "b3 unread"),
        (
            [UnreadRecords((3,), 25), UnreadRecords((2,), SILENT)],
            "b2,b3 >= 25",
            "b2,b3 unread (at least 25)",
        ),
        ([UnreadRecords((), 25)], ">= 25", "at least 25 in no replica"),
    ],
)
def test_what_is_unread_of_several_is_said_with_who_is_unread(
    bounds: list[UnreadRecords], text: str, sentence: str
) -> None:
    assert unread_total(bounds) == text
    assert unread_told(bounds) == sentence
