"""The course of a count in one line."""

from __future__ import annotations

import pytest

from breakglass.screens.ascii import in_ascii
from breakglass.screens.widgets.sparkline import LEVELS, sparkline


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], ""),
        ([0, 0], "▁▁"),
        ([0, 7], "▁█"),
        ([1, 100_000], "▂█"),
        ([None, 3, None], " █ "),
        ([None], " "),
        (list(range(8)), LEVELS),
    ],
)
def test_the_highest_is_full_and_only_zero_is_empty(
    values: list[int | None], expected: str
) -> None:
    assert sparkline(values) == expected


def test_every_level_has_a_sign_in_ascii() -> None:
    assert in_ascii(LEVELS) == "_.==oOO#"
