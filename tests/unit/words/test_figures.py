"""Figures say what is exact, what is about, what is unknown and what is none."""

from __future__ import annotations

import pytest

from services.model import Role, Unknown
from services.words.figures import count, shown, total_text
from services.words.moments import time_text

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
