"""Figures keep what was known, with its age and the reason why there is nothing newer."""

from __future__ import annotations

from breakglass.services.health.figure import Figure
from breakglass.services.model import Unknown

GONE = Unknown("the controllers do not answer")


def test_what_was_known_stays_with_its_age_when_it_cannot_be_read_again() -> None:
    figure = Figure(7, 1_000).again(GONE, 5_000)
    assert figure == Figure(7, 1_000, GONE)
    assert figure.age_ms(6_000) == 5_000
    assert figure.stale(5_000, 10_000)


def test_an_unknown_that_was_never_known_is_as_old_as_the_last_attempt() -> None:
    never: Figure[int] = Figure(Unknown("not read"), 0)
    assert never.again(GONE, 5_000) == Figure(GONE, 5_000)


def test_a_new_answer_takes_the_mark_off() -> None:
    healed = Figure(7, 1_000, GONE).again(8, 9_000)
    assert healed == Figure(8, 9_000)
    assert not healed.stale(9_500, 2_000)


def test_a_figure_is_stale_once_three_refreshes_are_missed() -> None:
    assert not Figure(7, 0).stale(6_000, 2_000)
    assert Figure(7, 0).stale(6_001, 2_000)
