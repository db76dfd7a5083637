"""Reading JSON that an operator wrote or edited: whatever is wrong is named by line and column."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from pathlib import Path

from breakglass.services.errors import MalformedInput, StorageError
from breakglass.services.regular_file import read_regular

MOST_BYTES = 1024 * 1024 * 1024
"""The largest file that is read, in bytes."""


def read_text(path: Path) -> str:
    """The text of *path*.

    Raises:
        StorageError: it cannot be opened or read.
        MalformedInput: it is not UTF-8.
    """
    try:
        return read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read ({error.strerror}): check the name and its permissions."
        ) from error
    except UnicodeDecodeError as error:
        raise MalformedInput(
            f"{path} is not UTF-8 text at byte {error.start}: save it as UTF-8 and run again."
        ) from error


def parse_json(text: str, source: str, *, bare_keys: bool = False) -> object:
    """The value of *text*, which messages call *source*.

    With *bare_keys*, keys may stand without quotes, as KIP-1275 prints its example
    (``topic: "foo"``): a letter, ``_`` or ``$``, then those or digits. Nothing else of JSON5.

    Raises:
        MalformedInput: not JSON, with line and column; a key twice in one object; a number
            that is none (NaN, Infinity) or has thousands of digits; nesting without end.
    """
    try:
        return load_json(text)
    except json.JSONDecodeError as error:
        if bare_keys:
            return _parse_bare_keys(text, source)
        raise _malformed(text, source, error.msg, error.pos) from error
    except UnreadableJson as error:
        raise MalformedInput(f"{source}: {error}: correct it and run again.") from error


def _parse_bare_keys(text: str, source: str) -> object:
    quoted, inserted = _quote_keys(text)
    try:
        return load_json(quoted)
    except json.JSONDecodeError as error:
        position = error.pos - bisect_left(inserted, error.pos)
        raise _malformed(text, source, error.msg, position) from error
    except UnreadableJson as error:
        raise MalformedInput(f"{source}: {error}: correct it and run again.") from error


class UnreadableJson(Exception):
    """JSON by its grammar, but not to be taken."""


def load_json(text: str) -> object:
    """The value of *text*.

    Raises:
        json.JSONDecodeError: not JSON.
        Unreadable: JSON, but with a key twice, a number that is none, or nested without end.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except json.JSONDecodeError:
        raise
    except RecursionError as error:
        raise UnreadableJson("its values are nested without end") from error
    except ValueError as error:
        raise UnreadableJson("a number in it has too many digits") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise UnreadableJson(f"the key {json.dumps(twice)} stands twice in one object")
    return found


def _no_constant(name: str) -> object:
    raise UnreadableJson(f"{name} is not a number of JSON")


_STRING_OR_BARE_KEY = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*")|(?P<before>[{,]\s*)(?P<key>[A-Za-z_$][A-Za-z0-9_$]*)(?=\s*:)""",
    re.DOTALL,
)


def _quote_keys(text: str) -> tuple[str, list[int]]:
    """*text* with its bare keys quoted, and where in the result a quote was put in."""
    parts: list[str] = []
    inserted: list[int] = []
    copied = length = 0
    for match in _STRING_OR_BARE_KEY.finditer(text):
        if match["key"] is None:
            continue
        start, end = match.span("key")
        parts += [text[copied:start], '"', match["key"], '"']
        length += start - copied
        inserted += [length, length + 1 + end - start]
        length += 2 + end - start
        copied = end
    return "".join([*parts, text[copied:]]), inserted


def _malformed(text: str, source: str, message: str, position: int) -> MalformedInput:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    what = message[:1].lower() + message[1:]
    return MalformedInput(
        f"{source} is not JSON at line {line}, column {column} ({what}): "
        "correct it there and run again."
    )
