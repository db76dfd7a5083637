"""Values that are made quickly are frozen dataclasses like all others."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, replace
from inspect import signature

import pytest

from breakglass.services.quick_values import maker, quickly_made
from tests.kit.work import calls_of


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


def test_it_is_made_as_before() -> None:
    assert (Quick(1).number, Quick(1).name, Quick(name="a", number=2)) == (1, "none", Quick(2, "a"))
    assert type(Quick(1)) is Quick
    with pytest.raises(FrozenInstanceError):
        Quick(1).number = 2  # type: ignore[misc]
    assert list(signature(Quick).parameters) == list(signature(Plain).parameters)
    with pytest.raises(TypeError):
        Quick()  # type: ignore[call-arg]


def test_it_is_compared_hashed_copied_and_pickled() -> None:
    quick = Quick(1, "a")
    assert {quick: 1}[Quick(1, "a")] == 1
    assert quick < Quick(2)
    assert replace(quick, number=3) == Quick(3, "a")
    assert asdict(quick) == {"number": 1, "name": "a"}
    assert copy.deepcopy(quick) == pickle.loads(pickle.dumps(quick)) == quick  # noqa: S301


def test_a_maker_makes_what_the_class_makes() -> None:
    quick = maker(Quick)
    assert (quick(1), quick(2, "a"), quick(name="a", number=2)) == (
        Quick(1),
        Quick(2, "a"),
        Quick(2, "a"),
    )
    assert type(quick(1)) is Quick
    with pytest.raises(FrozenInstanceError):
        quick(1).number = 2  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(quick(1))) == Quick(1)  # noqa: S301


def test_making_it_calls_nothing_but_its_constructor() -> None:
    assert calls_of(lambda: Quick(1)) == 2


def test_a_class_is_refused_whose_fields_are_worked_out_or_that_has_no_slots_or_a_base() -> None:
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

    for refused in (Listed, Checked, Loose, Heir):
        with pytest.raises(TypeError):
            quickly_made(refused)
