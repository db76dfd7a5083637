"""How much of a search is tried: a part of it where somebody waits, all of it in CI.

`make test` samples what CI and mutants go through whole.
"""

import os
import random
from collections.abc import Iterable, Sequence
from typing import NoReturn

import pytest

EVERYTHING = "BREAKGLASS_TEST_EVERYTHING"
"""Set in CI: a search is made whole, and what a test needs and is not there fails it."""
SAMPLED = 10
"""Of how many examples one is tried."""


def missing(why: str) -> NoReturn:
    """Skip the test that needs what is not there; in CI, fail it.

    Raises:
        AssertionError: in CI.
    """
    assert EVERYTHING not in os.environ, why
    pytest.skip(why)


def examples(count: int) -> int:
    """How many of *count* random examples are tried."""
    return count if EVERYTHING in os.environ else count // SAMPLED


def some_of(values: Sequence[int]) -> Sequence[int]:
    """One of twenty *values*, the same ones in each run; in CI all."""
    if EVERYTHING in os.environ:
        return values
    return random.Random(36).sample(values, len(values) // 20)


def others_slow(values: Iterable[str], first: str) -> list[object]:
    """Parameters of a test that is slow for all *values* but the *first*."""
    return [
        value if value == first else pytest.param(value, marks=pytest.mark.slow) for value in values
    ]
