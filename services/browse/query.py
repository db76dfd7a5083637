"""What records are searched for, in a small language of conditions that all have to hold.

::

    invoice                 in the key or the value
    key:u-17  key=u-17      the key has it in it, is exactly it
    value:declined          the value has it in it
    header:trace            it has a header of that name
    header:trace=abc        with that value
    json:user.id=17         the value is JSON that has 17 there; [0] is an element of an array
    json:items[0]           the value is JSON that has something there
    time:2026-01-31T12:00   written at that time (UTC) or later
    offset:1200             at that offset or later

Quotes keep blanks: ``"value:card declined"``. A minus before a condition turns it round.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from breakglass.services.divergence.entry import RecordEntry
from breakglass.services.errors import UsageError
from breakglass.services.words.moments import moment_in

HELP = "words, key: key= value: header: json: time: offset:, -not"

Condition = Callable[[RecordEntry], bool]
_STEP = re.compile(r"([^.\[\]]+)|\[([0-9]{1,9})\]")


@dataclass(frozen=True)
class RecordQuery:
    """Conditions, all of which have to hold."""

    text: str
    conditions: tuple[Condition, ...]

    def fits(self, entry: RecordEntry) -> bool:
        """Whether *entry*, held as a whole, is searched for."""
        return all(one(entry) for one in self.conditions)


def parse_query(text: str) -> RecordQuery:
    """The query that *text* is.

    Raises:
        UsageError: it is none, or empty; says where.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text!r} cannot be read ({error}): close the quotes.") from None
    if not words:
        raise UsageError(f"nothing to search for: write {HELP}.")
    return RecordQuery(text, tuple(_condition(word) for word in words))


def parse_time(text: str) -> int:
    """As `moment_in`. Raises UsageError where *text* says no moment."""
    try:
        return moment_in(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time: write 2026-01-31T12:00:00, or ms.") from None


def _condition(word: str) -> Condition:
    if len(word) > 1 and word.startswith("-"):
        turned = _condition(word[1:])
        return lambda entry: not turned(entry)
    name, colon, rest = word.partition(":")
    if colon and name in _KINDS:
        return _KINDS[name](rest)
    if word.startswith("key="):
        exact = word.removeprefix("key=").encode()
        return lambda entry: entry.key is not None and entry.key.kept == exact
    wanted = word.encode()
    return lambda entry: _has(entry.key, wanted) or _has(entry.value, wanted)


def _has(content: Any, wanted: bytes) -> bool:
    return content is not None and wanted in content.kept


def _key(rest: str) -> Condition:
    wanted = rest.encode()
    return lambda entry: _has(entry.key, wanted)


def _value(rest: str) -> Condition:
    wanted = rest.encode()
    return lambda entry: _has(entry.value, wanted)


def _header(rest: str) -> Condition:
    name, equals, value = rest.partition("=")
    wanted, worth = name.encode(), value.encode()

    def fits(entry: RecordEntry) -> bool:
        return any(
            key.kept == wanted and (not equals or (held is not None and held.kept == worth))
            for key, held in entry.headers.kept
        )

    return fits


def _offset(rest: str) -> Condition:
    digits = rest.replace(",", "")
    if not (digits.isascii() and digits.isdigit()):
        raise UsageError(f"offset:{rest} is no offset: write a number.")
    least = int(digits)
    return lambda entry: entry.offset >= least


def _time(rest: str) -> Condition:
    least = parse_time(rest)
    return lambda entry: entry.timestamp is not None and entry.timestamp >= least


def _json(rest: str) -> Condition:
    path, equals, wanted = rest.partition("=")
    steps = _steps(path)

    def fits(entry: RecordEntry) -> bool:
        if entry.value is None:
            return False
        try:
            found = _at(json.loads(entry.value.kept), steps)
        except (ValueError, LookupError, RecursionError):
            return False
        return not equals or _written(found) == wanted

    return fits


def _steps(path: str) -> tuple[str | int, ...]:
    clean = path.removeprefix("$").removeprefix(".")
    steps: list[str | int] = []
    at = 0
    for found in _STEP.finditer(clean):
        if clean[at : found.start()].strip("."):
            break
        steps.append(found[1] if found[1] is not None else int(found[2]))
        at = found.end()
    if not steps or clean[at:]:
        raise UsageError(f"json:{path} is no path: write it as json:user.names[0]=Ann.")
    return tuple(steps)


def _at(value: Any, steps: tuple[str | int, ...]) -> Any:
    """Raises LookupError where there is nothing."""
    for step in steps:
        if isinstance(step, int):
            if not isinstance(value, list):
                raise LookupError(step)
            value = value[step]
        else:
            if not isinstance(value, dict):
                raise LookupError(step)
            value = value[step]
    return value


def _written(value: Any) -> str:
    """A string as it is, anything else as JSON writes it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_KINDS: dict[str, Callable[[str], Condition]] = {
    "key": _key,
    "value": _value,
    "header": _header,
    "json": _json,
    "offset": _offset,
    "time": _time,
}
