"""The garbage collector is left out while many values are made, and never for longer."""

import gc
from collections.abc import Iterator

import pytest

from breakglass.services.quick_values import MANY, uncollected


@pytest.fixture(autouse=True)
def enabled_afterwards() -> Iterator[None]:
    yield
    gc.enable()


@pytest.mark.parametrize(("partitions", "collecting"), [(MANY - 1, True), (MANY, False)])
def test_it_looks_for_no_cycles_while_the_values_of_many_are_made(
    partitions: int, collecting: bool
) -> None:
    with uncollected(partitions):
        assert gc.isenabled() == collecting
    assert gc.isenabled()


def test_it_collects_again_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), uncollected(MANY):
        raise ZeroDivisionError
    assert gc.isenabled()


def test_where_it_is_switched_off_it_stays_so() -> None:
    gc.disable()
    with uncollected(MANY):
        assert not gc.isenabled()
    assert not gc.isenabled()
