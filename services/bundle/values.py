"""Writes shared values as JSON and reads them back strictly: whatever does not fit is refused.

What is written is read back as the same value, the kinds of `Unknown` among them, because verdicts
depend on these kinds. What is read was written by others: types, ranges and depth are checked
before a value is made.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID

from breakglass.services.model import Denied, Forfeited, Silent, Unknown

T = TypeVar("T")
Decoder = Callable[[Any, int], Any]
"""Reads a JSON value at a depth. Raises Unfit."""

KINDS: Mapping[str, type[Unknown]] = {
    "unknown": Unknown,
    "denied": Denied,
    "silent": Silent,
    "forfeited": Forfeited,
}
_NAMES = {kind: name for name, kind in KINDS.items()}
LARGEST = 2**63
"""Numbers of Kafka have 64 bits."""
DEEPEST = 40
"""Values within values; those that are written have fewer than ten."""


class Unfit(ValueError):
    """A JSON value that is not what it should be; says what was expected."""


def encode(value: Any) -> Any:
    """*value* in the types of JSON.

    Raises:
        TypeError: it has none, as a secret has none.
    """
    match value:
        case Enum():
            return value.value
        case None | bool() | str() | int() | float():
            return value
        case Unknown():
            needs = {"needs": value.needs} if isinstance(value, Denied) else {}
            return {"unknown": value.reason, "kind": _NAMES[type(value)], **needs}
        case UUID():
            return str(value)
        case bytes():
            return b64encode(value).decode()
        case Mapping():
            return {str(key): encode(item) for key, item in value.items()}
        case tuple() | list():
            return [encode(item) for item in value]
        case frozenset():
            return sorted(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {name: encode(getattr(value, name)) for name in _field_names(type(value))}
    raise TypeError(f"a {type(value).__name__} has no place in a bundle")


def decode(kind: type[T], document: Any) -> T:
    """The value of the dataclass *kind* that *document* is.

    Raises:
        Unfit: it is none; nothing was made of it.
    """
    value: T = _decoder(cast("Any", kind))(document, 0)
    return value


@lru_cache(256)
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@lru_cache(1024)
def _decoder(kind: Any) -> Decoder:
    """What reads a *kind*, which is a type or an annotation."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _choice(args)
    if origin is tuple:
        return _sequence(args[0], tuple)
    if origin is frozenset:
        return _sequence(args[0], frozenset)
    if origin in (dict, Mapping):
        return _mapping(*args)
    if isinstance(kind, type) and issubclass(kind, Enum):
        members = {member.value: member for member in kind}

        def member(value: Any, _: int) -> Enum:
            if type(value) not in (str, int) or value not in members:
                raise Unfit(f"one of {', '.join(map(str, members))} is expected")
            return members[value]

        return member
    if isinstance(kind, type) and is_dataclass(kind):
        return _object(kind)
    raise TypeError(f"{kind} cannot be read from a bundle")


def _whole_number(value: Any, _: int) -> int:
    if type(value) is not int or not -LARGEST <= value < LARGEST:
        raise Unfit("a whole number of 64 bits is expected")
    return value


def _number(value: Any, _: int) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > LARGEST:
        raise Unfit("a number is expected")
    return float(value)


def _text(value: Any, _: int) -> str:
    if type(value) is not str:
        raise Unfit("a text is expected")
    return value


def _flag(value: Any, _: int) -> bool:
    if type(value) is not bool:
        raise Unfit("true or false is expected")
    return value


def _nothing(value: Any, _: int) -> None:
    if value is not None:
        raise Unfit("null is expected")


def _uuid(value: Any, depth: int) -> UUID:
    try:
        return UUID(_text(value, depth))
    except ValueError as error:
        raise Unfit("a UUID is expected") from error


def _bytes(value: Any, depth: int) -> bytes:
    try:
        return b64decode(_text(value, depth), validate=True)
    except ValueError as error:
        raise Unfit("bytes in base64 are expected") from error


def _unknown(value: Any, _: int) -> Unknown:
    if not (_is_unknown(value) and value.keys() <= {"unknown", "kind", "needs"}):
        raise Unfit('{"unknown": REASON, "kind": KIND} is expected')
    kind, reason = KINDS.get(value["kind"]), value["unknown"]
    if kind is Denied and type(value.get("needs")) is str:
        return Denied(reason, value["needs"])
    if kind in (None, Denied) or "needs" in value:
        raise Unfit("an unknown value of a known kind is expected")
    return kind(reason)


def _is_unknown(value: Any) -> bool:
    """Whether *value* has the form of an `Unknown`; a mapping of numbers never has."""
    return type(value) is dict and all(type(value.get(key)) is str for key in ("unknown", "kind"))


_PLAIN: dict[Any, Decoder] = {
    int: _whole_number,
    float: _number,
    str: _text,
    bool: _flag,
    NoneType: _nothing,
    UUID: _uuid,
    bytes: _bytes,
    Unknown: _unknown,
}


def _choice(kinds: tuple[Any, ...]) -> Decoder:
    """One of several: null, an unknown value, or the one kind that is left."""
    (known,) = [kind for kind in kinds if kind not in (NoneType, Unknown)] or [Unknown]
    read = _decoder(known) if known in _PLAIN else None

    def choose(value: Any, depth: int) -> Any:
        if value is None and NoneType in kinds:
            return None
        if Unknown in kinds and _is_unknown(value):
            return _unknown(value, depth)
        # Looked up now: a class may have a field of its own kind.
        return (read or _decoder(known))(value, depth)

    return choose


def _sequence(kind: Any, make: Callable[[list[Any]], Any]) -> Decoder:
    read = _decoder(kind)

    def sequence(value: Any, depth: int) -> Any:
        if type(value) is not list:
            raise Unfit("a list is expected")
        return make([read(item, depth + 1) for item in value])

    return sequence


def _mapping(key_kind: Any, kind: Any) -> Decoder:
    read = _decoder(kind)

    def mapping(value: Any, depth: int) -> Any:
        if type(value) is not dict:
            raise Unfit("an object is expected")
        return {_key(key_kind, key): read(item, depth + 1) for key, item in value.items()}

    return mapping


def _key(kind: Any, key: str) -> Any:
    if kind is str:
        return key
    if not (key.isascii() and key.isdigit() and len(key) <= 10 and str(int(key)) == key):
        raise Unfit("a broker id is expected as a key")
    return int(key)


def _object(kind: type[Any]) -> Decoder:
    hints = get_type_hints(kind)
    needed = {
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    }
    readers: dict[str, Decoder] = {}

    def value_of(value: Any, depth: int) -> Any:
        if depth > DEEPEST:
            raise Unfit("its values are nested without end")
        if type(value) is not dict or not needed <= value.keys() <= hints.keys():
            raise Unfit(f"a {kind.__name__} with its fields is expected")
        if not readers:
            readers.update({name: _decoder(hints[name]) for name in hints})
        made = {}
        for name, item in value.items():
            try:
                made[name] = readers[name](item, depth + 1)
            except Unfit as error:
                raise Unfit(f"{name}: {error}") from error
        return kind(**made)

    return value_of
