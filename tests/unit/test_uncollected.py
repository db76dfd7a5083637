"""The garbage collector is left out while many values are made, and never for longer."""

from __future__ import annotations

import gc

import pytest

from breakglass.services.uncollected import MANY, uncollected


@pytest.mark.parametrize(("partitions", "collecting"), [(MANY - 1, True), (MANY, False)])
def test_it_looks_for_no_cycles_while_the_values_of_many_are_made(
    partitions: int, collecting: bool
) -> None:
    assert gc.isenabled()
    with uncollected(partitions):
        assert gc.isenabled() == collecting
    assert gc.isenabled()


def test_it_collects_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="half way"), uncollected(MANY):
        raise ValueError("half way")
    assert gc.isenabled()


def test_where_it_is_switched_off_it_stays_so() -> None:
    gc.disable()
    try:
        with uncollected(MANY):
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
