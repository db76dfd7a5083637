"""Ids of brokers as operators write them: ``4 7``, ``4,7``, ``b4, b7``."""

from __future__ import annotations

import re
from collections.abc import Iterable

_BETWEEN = re.compile(r"[\s,]+")
_ID = re.compile(r"b?([0-9]{1,10})", re.ASCII)


def brokers_in(text: str) -> tuple[int, ...]:
    """The ids in *text*, each once, in its order.

    Raises:
        ValueError: a word is not an id.
    """
    found = [_ID.fullmatch(word) for word in _BETWEEN.split(text) if word]
    if not all(found):
        raise ValueError(f"{text!r} names no brokers")
    return tuple(dict.fromkeys(int(match[1]) for match in found if match))


def names_brokers(word: str) -> bool:
    """Whether *word* consists of ids alone."""
    try:
        return bool(brokers_in(word))
    except ValueError:
        return False


def brokers_among(texts: Iterable[str]) -> tuple[int, ...]:
    """The ids in all of *texts*, each once. Raises ValueError."""
    return brokers_in(" ".join(texts))
