"""Where two sequences of mostly the very same values differ."""

import random

import pytest

from breakglass.services.same_ends import differing

VALUES = [object() for _ in range(8)]


def test_equal_values_that_are_not_the_same_differ() -> None:
    before, now = [(1,), (int("2"), 0), (3,)], [(1,), (int("2"), 0), (3,)]
    assert differing(before, [before[0], now[1], before[2]]) == (slice(1, 2), slice(1, 2))


@pytest.mark.parametrize("seed", range(40))
def test_what_surrounds_the_parts_that_differ_is_the_very_same(seed: int) -> None:
    chance = random.Random(seed)
    before = chance.choices(VALUES, k=chance.randrange(6))
    now = list(before)
    for _ in range(chance.randrange(3)):
        place = chance.randrange(len(now) + 1)
        now[place : place + chance.randrange(3)] = chance.choices(VALUES, k=chance.randrange(3))
    was, since = differing(before, now)
    assert 0 <= was.start <= was.stop <= len(before)
    assert since.start <= since.stop <= len(now)
    assert before[: was.start] == now[: since.start]
    assert before[was.stop :] == now[since.stop :]
