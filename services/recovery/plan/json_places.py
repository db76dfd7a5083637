"""Where in a JSON text each value stands, so that what is wrong with it can be pointed at."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Keys and indexes from the top: ``("partitions", 12, "designatedLeader")``."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


@dataclass(slots=True)
class _Open:
    """An object or array that has not ended."""

    array: bool
    key: str | int | None = None
    """Of the member being read; None: a key is expected."""


def places(text: str) -> Iterator[tuple[Path, int]]:
    """Each value of *text*, which is JSON, with the index of its first character.

    A key that stands twice in one object gives the same path twice, at its first character.
    """
    around: list[_Open] = []
    for token in _TOKEN.finditer(text):
        found = token.group()
        inside = around[-1] if around else None
        if found in "}]":
            around.pop()
        elif found == ",":
            _next(around[-1])
        elif inside is not None and inside.key is None:
            inside.key = json.loads(found)
            yield _path(around), token.start()
        elif found != ":":
            if inside is None or inside.array:
                yield _path(around), token.start()
            if found in "{[":
                around.append(_Open(found == "[", 0 if found == "[" else None))


def line_and_column(text: str, index: int) -> tuple[int, int]:
    """Both counted from 1, as editors do."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _next(inside: _Open) -> None:
    inside.key = inside.key + 1 if inside.array and isinstance(inside.key, int) else None


def _path(around: list[_Open]) -> Path:
    return tuple([one.key for one in around if one.key is not None])
