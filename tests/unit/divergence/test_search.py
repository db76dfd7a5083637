"""The next and the previous difference: where runs of one kind begin, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from breakglass.services.divergence.align import Comparison, HunkTotals, PairKind
from breakglass.services.divergence.entry import Item, UnreadableRange
from breakglass.services.divergence.search import (
    TELL_EVERY,
    count,
    next_difference,
    previous_difference,
)
from breakglass.services.divergence.source import Extent, Reading
from tests.unit.divergence.streams import Edited, ListSource, compare, edited, entries

READING = Reading()


def silent(_: object) -> None:
    """Nobody looks at the progress."""


def walk(
    comparison: Comparison,
    at: int,
    step: Callable[[Comparison, int, Reading, Callable[[int], None]], int | None],
) -> list[int]:
    """Where repeated steps lead."""
    found = []
    while (place := step(comparison, at, READING, silent)) is not None:
        found.append(place)
        at = place
    return found


def begins(comparison: Comparison) -> list[int]:
    """Where runs of differences begin, found pair by pair."""
    kinds = {pair.offset: pair.kind for pair in comparison.pairs(0, 10**6, READING)}
    places = sorted(kinds)
    befores = [None, *(kinds[place] for place in places)]
    return [
        place
        for place, before in zip(places, befores, strict=False)
        if kinds[place] is not PairKind.EQUAL and kinds[place] is not before
    ]


@given(edited())
def test_next_leads_through_every_run_forward(made: Edited) -> None:
    comparison = compare(made.before, made.after)
    assert walk(comparison, -1, next_difference) == begins(comparison)


@given(edited())
def test_previous_leads_through_every_run_back(made: Edited) -> None:
    comparison = compare(made.before, made.after)
    end = comparison.extent.end
    assert walk(comparison, end, previous_difference) == begins(comparison)[::-1]


DIVERGED = (
    [*entries(0, 100, epoch=0), *entries(100, 150, b"old", epoch=1)],
    [*entries(0, 100, epoch=0), *entries(100, 125, b"new", epoch=2)],
)


@pytest.mark.parametrize("proven", [None, Extent(0, 100)])
def test_two_diverged_replicas_differ_in_two_places(proven: Extent | None) -> None:
    comparison = compare(*DIVERGED, proven)
    assert walk(comparison, 0, next_difference) == [100, 125]
    assert walk(comparison, 150, previous_difference) == [125, 100]
    assert previous_difference(comparison, 110, READING, silent) == 100


def test_what_is_proven_to_be_the_same_is_not_read() -> None:
    comparison = compare(*DIVERGED, Extent(0, 100))
    assert next_difference(comparison, 5, READING, silent) == 100
    assert previous_difference(comparison, 100, READING, silent) is None
    assert isinstance(comparison.left, ListSource)
    assert all(start >= 100 for start, _ in comparison.left.asked)


def test_what_one_side_alone_has_before_the_proof_is_found() -> None:
    left, right = entries(0, 50), entries(30, 50)
    comparison = compare(left, right, Extent(30, 50))
    assert walk(comparison, 49, previous_difference) == [0]
    assert next_difference(comparison, 0, READING, silent) is None


def test_damage_is_a_difference_to_look_at() -> None:
    damaged: list[Item] = [*entries(0, 10), UnreadableRange(10, 20, "damaged"), *entries(20, 30)]
    comparison = compare(damaged, entries(0, 30))
    assert walk(comparison, 0, next_difference) == [10]
    assert walk(comparison, 30, previous_difference) == [10]


def test_a_long_search_tells_how_far_it_is() -> None:
    told: list[int] = []
    same = entries(0, 3 * TELL_EVERY)
    assert next_difference(compare(same, same), 0, READING, told.append) is None
    assert told == [TELL_EVERY - 1, 2 * TELL_EVERY - 1, 3 * TELL_EVERY - 1]


def test_everything_is_counted_from_an_address_on() -> None:
    told: list[int] = []
    left, right = DIVERGED
    totals = count(compare(left, right), 90, READING, lambda totals: told.append(totals.counted_to))
    assert totals.kinds == {PairKind.EQUAL: 10, PairKind.DIFFERENT: 25, PairKind.LEFT: 25}
    assert (totals.first, totals.counted_to) == (100, 150)
    many = entries(0, 2 * TELL_EVERY)
    assert count(compare(many, many), 0, READING, silent) == HunkTotals(
        kinds=totals.kinds.__class__({PairKind.EQUAL: 2 * TELL_EVERY}), counted_to=2 * TELL_EVERY
    )
