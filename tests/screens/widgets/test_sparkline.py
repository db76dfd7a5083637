"""The course of a count in one line."""

from __future__ import annotations

from breakglass.screens.ascii import in_ascii
from breakglass.screens.widgets.sparkline import LEVELS, sparkline


def test_the_highest_is_full_only_zero_is_empty_and_every_level_has_a_sign_in_ascii() -> None:
    drawn: dict[str, list[int | None]] = {
        "": [],
        "▁▁": [0, 0],
        "▁█": [0, 7],
        "▂█": [1, 100_000],
        " █ ": [None, 3, None],
        " ": [None],
        LEVELS: [*range(8)],
    }
    for expected, values in drawn.items():
        assert sparkline(values) == expected
    assert in_ascii(LEVELS) == "_.==oOO#"
