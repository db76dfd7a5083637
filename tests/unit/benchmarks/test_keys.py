"""The keys that are pressed and the figure that is made of their times."""

from __future__ import annotations

from benchmarks._incident import LARGEST
from benchmarks.keys import ROUND, Painted, percentile95


def painted(*milliseconds: float) -> list[Painted]:
    return [Painted("down", millisecond) for millisecond in milliseconds]


def test_one_stroke_in_twenty_may_be_slow() -> None:
    assert percentile95(painted(*[10.0] * 97, *[500.0] * 3)) == 10.0
    assert percentile95(painted(*[10.0] * 93, *[500.0] * 7)) == 500.0


def test_a_round_empties_its_filter_and_closes_its_group() -> None:
    keys = [stroke.keys for stroke in ROUND]
    named = [stroke.name for stroke in ROUND]
    assert "".join(key for key in keys if key.isalpha() and key.islower()) == LARGEST + "us"
    assert named.count("open a group") == named.count("close a group") == 1
    assert named.index("all again") > named.index("close a group")
