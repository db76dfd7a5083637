"""Makes frozen values quickly: a large cluster has millions of them.

A frozen dataclass sets each of its fields by a call of its own, because assignment is forbidden:
that is most of what it costs to make a value of many fields. Here the constructor fills a twin
without that guard, which has the same slots, and the twin then becomes the value. Frozen it is
all the same: once made, a value refuses every assignment.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

T = TypeVar("T")


def quickly_made(value_class: type[T]) -> type[T]:
    """*value_class*, a frozen dataclass with slots, with a constructor several times as fast.

    Raises TypeError for a class with fields that a constructor has to work out, and for one
    without slots or with a base: the twin has to be of the same layout.
    """
    listed = fields(value_class)  # type: ignore[arg-type]
    if hasattr(value_class, "__post_init__") or any(not _plain(field) for field in listed):
        raise TypeError(f"{value_class.__name__} has fields that are more than set")
    names = [field.name for field in listed]
    if value_class.__dict__.get("__slots__") != tuple(names) or value_class.__bases__ != (object,):
        raise TypeError(f"{value_class.__name__} needs slots of its own, and no base")
    twin = type(value_class.__name__, (), {"__slots__": tuple(names)})
    values: dict[str, Any] = {
        f"default_{field.name}": field.default for field in listed if field.default is not MISSING
    }
    asked = ", ".join(
        name if f"default_{name}" not in values else f"{name}=default_{name}" for name in names
    )
    lines = [
        f"def __init__(self, {asked}):",
        "    become(self, '__class__', twin)",
        *[f"    self.{name} = {name}" for name in names],
        "    self.__class__ = value_class",
    ]
    values |= {"become": object.__setattr__, "twin": twin, "value_class": value_class}
    exec("\n".join(lines), values)  # noqa: S102 -- as dataclasses do: names of our own fields
    made = values["__init__"]
    made.__qualname__ = f"{value_class.__qualname__}.__init__"
    made.__annotations__ = dict(value_class.__init__.__annotations__)
    value_class.__init__ = made  # type: ignore[method-assign]
    return value_class


def _plain(field: Field[Any]) -> bool:
    """The constructor takes it as it is."""
    return field.init and not field.kw_only and field.default_factory is MISSING
