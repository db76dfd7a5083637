"""A digest that two people can compare over the phone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

_CONSONANTS = "bdfghjklmnprstvz"
_VOWELS = "aiou"
SPOKEN_GROUPS = 3


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(value: object) -> str:
    """SHA-256, in hexadecimal, of *value* as canonical JSON."""
    return digest_of_parts([canonical(value)])


def digest_of_parts(parts: Iterable[str]) -> str:
    """`digest_of` a value whose canonical JSON is *parts* one after the other."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part.encode("ascii"))
    return found.hexdigest()


def canonical(value: object) -> str:
    """*value* as the one JSON text that stands for it.

    Keys sorted, no blanks, ASCII: neither order of keys nor white space matters.
    """
    return _CANONICAL.encode(value)


def spoken(digest: str) -> str:
    """The first 48 bits of a hexadecimal *digest* as speakable groups: ``lusab-babad-gutih``.

    Proquints (arXiv:0901.4016): each group of five letters stands for 16 bits.
    """
    groups = (int(digest[4 * i : 4 * i + 4], 16) for i in range(SPOKEN_GROUPS))
    return "-".join(
        (
            _CONSONANTS[group >> 12]
            + _VOWELS[group >> 10 & 3]
            + _CONSONANTS[group >> 6 & 15]
            + _VOWELS[group >> 4 & 3]
            + _CONSONANTS[group & 15]
        )
        for group in groups
    )
