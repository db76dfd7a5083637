"""Values that are made quickly are frozen dataclasses like all others."""

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, replace
from inspect import signature

import pytest

from breakglass.services.quick_values import maker, quickly_made


@dataclass(frozen=True, slots=True)
class Plain:
    """A value as dataclasses make it."""

    number: int
    name: str = "none"


@quickly_made
@dataclass(frozen=True, slots=True, order=True)
class Quick:
    """The same, made quickly."""

    number: int
    name: str = "none"


@pytest.mark.parametrize("make", [Quick, maker(Quick)], ids=["class", "maker"])
def test_it_is_made_as_before_and_frozen(make: type[Quick]) -> None:
    made = make(1)
    assert (made, type(made), made.name) == (Quick(1, "none"), Quick, "none")
    assert make(name="a", number=2) == make(2, "a")
    with pytest.raises(FrozenInstanceError):
        made.number = 2  # type: ignore[misc]
    assert list(signature(Quick).parameters) == list(signature(Plain).parameters)
    with pytest.raises(TypeError):
        make()  # type: ignore[call-arg]


def test_it_is_compared_hashed_copied_and_pickled() -> None:
    quick = Quick(1, "a")
    assert {quick: 1}[Quick(1, "a")] == 1
    assert quick < Quick(2)
    assert replace(quick, number=3) == Quick(3, "a")
    assert asdict(quick) == {"number": 1, "name": "a"}
    assert copy.deepcopy(quick) == pickle.loads(pickle.dumps(quick)) == quick  # noqa: S301


@dataclass(frozen=True, slots=True)
class Listed:
    items: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Checked:
    number: int

    def __post_init__(self) -> None:
        assert self.number


@dataclass(frozen=True)
class Loose:
    number: int


@dataclass(frozen=True, slots=True)
class Heir(Plain):
    more: int = 0


@pytest.mark.parametrize("refused", [Listed, Checked, Loose, Heir])
def test_a_class_that_works_fields_out_has_no_slots_or_has_a_base_is_refused(refused: type) -> None:
    with pytest.raises(TypeError):
        quickly_made(refused)
