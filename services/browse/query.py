"""Finds records by a query, conditions that a record must all meet, or by a time.

::

    invoice                 the key or the value contains the word
    key:u-17  key=u-17      the key contains the text; the key equals the text
    value:declined          the value contains the text
    header:trace            a header has that name
    header:trace=abc        a header has that name and that value
    json:user.id=17         the value is JSON with 17 at that path; [0] is an array element
    json:items[0]           the value is JSON with any value at that path
    time:2026-01-31T12:00   the timestamp is that time (UTC) or later
    offset:1200             the offset is that one or later

Quotes keep spaces: ``"value:card declined"``. A minus before a condition negates it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from breakglass.services.divergence.align import Comparison, RecordPair
from breakglass.services.divergence.source import Item, Keep, Reading, RecordEntry, Source, Span
from breakglass.services.errors import UsageError
from breakglass.services.words.inert import inert
from breakglass.services.words.moments import moment_in

HELP = "words, key: key= value: header: json: time: offset:, -not"

Condition = Callable[[RecordEntry], bool]
_STEP = re.compile(r"([^.\[\]]+)|\[([0-9]{1,9})\]")


@dataclass(frozen=True)
class RecordQuery:
    """Conditions that a record must all meet."""

    text: str
    conditions: tuple[Condition, ...]
    wanted: tuple[tuple[str, str], ...] = ()
    """What is looked for in the ``key`` or the ``value``, as it stands there."""

    def spans(self, field: str, text: str) -> tuple[Span, ...]:
        """Where *text*, in words or as bytes in hex, has what is looked for in that *field*."""
        found: list[Span] = []
        for name, plain in self.wanted:
            if name == field and plain:
                either = f"{re.escape(inert(plain))}|{re.escape(plain.encode().hex(' '))}"
                found += [match.span() for match in re.finditer(either, text)]
        merged: list[Span] = []
        for start, end in sorted(found):
            if merged and start <= merged[-1][1]:
                start, end = merged[-1][0], max(merged.pop()[1], end)
            merged.append((start, end))
        return tuple(merged)

    def fits(self, entry: RecordEntry) -> bool:
        """Whether *entry* meets every condition; *entry* must contain the whole record."""
        return all(condition(entry) for condition in self.conditions)


def parse_query(text: str) -> RecordQuery:
    """Parse *text* as a query.

    Raises:
        UsageError: *text* is empty or not a query; the message says where.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text!r} cannot be read ({error}): close the quotes.") from None
    if not words:
        raise UsageError(f"nothing to search for: write {HELP}.")
    wanted: list[tuple[str, str]] = []
    for word in words:
        name, colon, rest = word.partition(":")
        if word.startswith(("-", "header:", "offset:", "time:")):
            continue
        if word.startswith("key="):
            wanted.append(("key", word.removeprefix("key=")))
        elif colon and name in ("key", "value"):
            wanted.append((name, rest))
        elif colon and name == "json":
            wanted.append(("value", rest.partition("=")[2]))
        else:
            wanted += [("key", word), ("value", word)]
    return RecordQuery(text, tuple(_condition(word) for word in words), tuple(wanted))


def parse_time(text: str) -> int:
    """Parse *text* with `moment_in`. Raises UsageError if *text* is not a time."""
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
        # Write a string without quotes, and any other value as JSON.
        return (
            not equals
            or (found if isinstance(found, str) else json.dumps(found, ensure_ascii=False))
            == wanted
        )

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
    """Follow the path *steps* into *value*. Raises LookupError if nothing is there."""
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


_KINDS: dict[str, Callable[[str], Condition]] = {
    "key": _key,
    "value": _value,
    "header": _header,
    "json": _json,
    "offset": _offset,
    "time": _time,
}


WHOLE = Keep(value=2**31, headers=2**31)
"""A search reads whole records, one at a time."""
TELL_EVERY = 256
FIRST_STEP, MOST_STEP, GROWTH = 64, 65_536, 4
"""How many offsets a backward search reads at once: at first, at most, and the growth factor."""

Progress = Callable[[int], None]


def next_match(
    comparison: Comparison, query: RecordQuery, after: int, reading: Reading, progress: Progress
) -> int | None:
    """The first offset above *after* at which a record of either side matches."""
    whole = replace(reading, keep=WHOLE)
    start = max(after + 1, comparison.extent.start)
    for number, pair in enumerate(comparison.pairs(start, comparison.extent.end, whole), 1):
        if _fits(query, pair):
            return pair.offset
        if number % TELL_EVERY == 0:
            progress(pair.offset)
    return None


def previous_match(
    comparison: Comparison, query: RecordQuery, before: int, reading: Reading, progress: Progress
) -> int | None:
    """The last offset below *before* at which a record of either side matches."""
    whole = replace(reading, keep=WHOLE)
    lowest, end, step = comparison.extent.start, min(before, comparison.extent.end), FIRST_STEP
    while end > lowest:
        start, found = max(lowest, end - step), None
        for pair in comparison.pairs(start, end, whole):
            if _fits(query, pair):
                found = pair.offset
        if found is not None:
            return found
        progress(start)
        end, step = start, min(step * GROWTH, MOST_STEP)
    return None


def first_at(source: Source, moment_ms: int, reading: Reading) -> int:
    """The first offset whose record has a timestamp of *moment_ms* or later, by binary search.

    The result is exact where timestamps rise with offsets. If no record is that late, it is the
    end of *source*.
    """
    low, high = source.extent.start, source.extent.end
    while low < high:
        middle = (low + high) // 2
        entry = _stamped(source, middle, high, reading)
        if entry is None or (entry.timestamp or 0) >= moment_ms:
            high = middle
        else:
            low = entry.offset + 1
    return low


def _stamped(source: Source, start: int, end: int, reading: Reading) -> RecordEntry | None:
    """The first record at or after *start* that has a timestamp."""
    for item in source.read(start, end, reading):
        if isinstance(item, RecordEntry) and item.timestamp is not None and item.marker is None:
            return item
    return None


def _fits(query: RecordQuery, pair: RecordPair) -> bool:
    sides: tuple[Item | None, ...] = (pair.left, pair.right)
    if pair.left is pair.right:
        sides = (pair.left,)
    return any(isinstance(side, RecordEntry) and query.fits(side) for side in sides)
