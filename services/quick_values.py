"""Makes frozen values quickly: a large cluster has millions of them.

A frozen dataclass sets each of its fields by a call of its own, because assignment is forbidden:
that is most of what it costs to make a value of many fields. Here the constructor fills a twin
without that guard, which adds no fields, and the twin then becomes the value. Frozen it is all
the same: once made, a value refuses every assignment.

Where hundreds of thousands are made in a loop, `maker` gives the same as a plain function: Python
calls that without the detour through the class, in two thirds of the time.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Recipe(NamedTuple):
    """How values of one class are made, as source, and the names in it."""

    asked: str
    """The parameters."""
    fill: str
    """Sets each field of ``self``, which is a twin, and makes it a value of the class."""
    names: dict[str, Any]

    def compiled(self, name: str, source: str) -> Any:
        """The function of that *name* in *source*."""
        exec(source, self.names)  # noqa: S102 -- as dataclasses do: names of our own fields
        return self.names[name]


_RECIPES: dict[Any, _Recipe] = {}
"""By class."""


def quickly_made(value_class: type[T]) -> type[T]:
    """*value_class*, a frozen dataclass with slots, with a constructor several times as fast.

    Raises TypeError for any other class: one with fields that a constructor has to work out,
    without slots of its own, or with a base.
    """
    listed = fields(value_class)  # type: ignore[arg-type]
    if hasattr(value_class, "__post_init__") or any(not _plain(field) for field in listed):
        raise TypeError(f"{value_class.__name__} has fields that are more than set")
    names = [field.name for field in listed]
    if value_class.__dict__.get("__slots__") != tuple(names) or value_class.__bases__ != (object,):
        raise TypeError(f"{value_class.__name__} needs slots of its own, and no base")
    values: dict[str, Any] = {
        f"default_{field.name}": field.default for field in listed if field.default is not MISSING
    }
    asked = ", ".join(
        name if f"default_{name}" not in values else f"{name}=default_{name}" for name in names
    )
    # A subclass without slots of its own: Python sees at once that both have one layout.
    unguarded = {
        "__slots__": (),
        "__init__": object.__init__,
        "__setattr__": object.__setattr__,
        "__delattr__": object.__delattr__,
    }
    values |= {
        "become": object.__setattr__,
        "twin": type(value_class.__name__, (value_class,), unguarded),
        "value_class": value_class,
    }
    sets = [f"    self.{name} = {name}\n" for name in names]
    fill = "".join(sets) + "    self.__class__ = value_class\n"
    recipe = _RECIPES[value_class] = _Recipe(asked, fill, values)
    made = recipe.compiled(
        "__init__", f"def __init__(self, {asked}):\n    become(self, '__class__', twin)\n{fill}"
    )
    made.__qualname__ = f"{value_class.__qualname__}.__init__"
    made.__annotations__ = dict(value_class.__init__.__annotations__)
    value_class.__init__ = made  # type: ignore[method-assign]
    return value_class


def maker(value_class: Callable[P, T]) -> Callable[P, T]:
    """The constructor of a `quickly_made` class as a plain function."""
    recipe = _RECIPES[value_class]
    made: Callable[P, T] = recipe.compiled(
        "make", f"def make({recipe.asked}):\n    self = twin()\n{recipe.fill}    return self\n"
    )
    return made


def _plain(field: Field[Any]) -> bool:
    """The constructor takes it as it is."""
    return field.init and not field.kw_only and field.default_factory is MISSING


MANY = 10_000
"""Of fewer partitions the collector has hardly anything to look at."""
YOUNG = 1
"""The generation up to which garbage is collected before."""


@contextmanager
def uncollected(partitions: int) -> Iterator[None]:
    """Look for no cycles while the values of so many *partitions* are made, nor among them later.

    They are freed as soon as nothing refers to them, as all values are. Garbage in cycles that
    other threads leave in the meantime is never freed, so the values of few partitions are made
    as usual. No effect where the collector is switched off already.
    """
    if partitions < MANY or not gc.isenabled():
        yield
        return
    gc.collect(YOUNG)
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
