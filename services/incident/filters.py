"""The language of the filter: ``orders broker:2 verdict:loss loss:>0 -is:internal``. Pure.

A row must match all words; ``-`` before a word negates it. A bare word is looked for in the
name. A key takes several values: ``verdict:loss,fork``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from breakglass.services.errors import UsageError
from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import Unknown
from breakglass.services.recovery.judgement.assessment import Verdict, internal

INTERNAL = "internal"
"""The only flag that may stand without ``is:``."""

Keeps = Callable[[IncidentRow], bool]
Value = int | Unknown | None


@dataclass(frozen=True, slots=True)
class Test:
    """The test of a row by a word of a filter."""

    keeps: Keeps
    alike: bool = False
    """Of rows with one topic, verdict and action it keeps all or none."""
    of_topics: bool = False
    """It looks at topics alone; another that keeps rows alike looks at verdict and action alone."""


class FilterError(UsageError):
    """A filter that cannot be read, with the place of the fault."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position
        """The place of the first wrong character, counted from 0."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows are listed."""

    text: str = ""
    """The filter as it was written."""
    tests: tuple[Test, ...] = ()

    def keeps(self, row: IncidentRow) -> bool:
        """Whether *row* is listed."""
        return all(test.keeps(row) for test in self.tests)

    @property
    def alike(self) -> bool:
        """Of rows with one topic, verdict and action it keeps all or none."""
        return all(test.alike for test in self.tests)

    def __bool__(self) -> bool:
        return bool(self.tests)


def readable(text: str) -> tuple[RowFilter, FilterError | None]:
    """The part of *text* that can be read as it is typed, and the fault of the first bad word."""
    tests: list[Test] = []
    fault: FilterError | None = None
    for match in re.finditer(r"\S+", text):
        try:
            tests.append(_word(match.group(), match.start()))
        except FilterError as error:
            fault = fault or error
    return RowFilter(text.strip(), tuple(tests)), fault


def _word(word: str, position: int) -> Test:
    if word.startswith("-") and len(word) > 1:
        test = _word(word[1:], position + 1)
        return Test(lambda row: not test.keeps(row), test.alike, test.of_topics)
    key, colon, value = word.partition(":")
    if not colon:
        return _FLAGS[INTERNAL] if word.lower() == INTERNAL else _name(word)
    if key.lower() not in _KEYS:
        raise FilterError(f"no key {key}: use {', '.join(_KEYS)}", position)
    at = position + len(key) + 1
    if not value:
        raise FilterError(f"{key}: wants a value, such as {_EXAMPLES[key.lower()]}", at)
    return _KEYS[key.lower()](value, at)


def _name(part: str) -> Test:
    """*part* in the name; with ``*`` or ``?`` the whole name."""
    wanted = part.lower()
    if "*" in wanted or "?" in wanted:
        return Test(lambda row: fnmatchcase(str(row.partition).lower(), wanted))
    if _NUMBERED.search(wanted):
        return Test(lambda row: wanted in str(row.partition).lower())
    return Test(lambda row: wanted in row.partition.topic.lower(), alike=True, of_topics=True)


def _topic(value: str, _: int) -> Test:
    wanted = value.lower().split(",")
    patterns = [word if "*" in word or "?" in word else f"*{word}*" for word in wanted]
    return Test(
        lambda row: any(fnmatchcase(row.partition.topic.lower(), pattern) for pattern in patterns),
        alike=True,
        of_topics=True,
    )


def _broker(value: str, position: int) -> Test:
    wanted = _brokers(value, position)
    return Test(lambda row: not wanted.isdisjoint(row.assignment))


def _best(value: str, position: int) -> Test:
    wanted = _brokers(value, position)
    return Test(lambda row: row.designee in wanted)


def _unread_of(value: str, position: int) -> Test:
    wanted = _brokers(value, position)
    return Test(lambda row: not wanted.isdisjoint(row.unread))


def _brokers(value: str, position: int) -> frozenset[int]:
    found = set()
    for word in value.split(","):
        number = word.lower().removeprefix("b")
        if not (number.isascii() and number.isdigit()):
            raise FilterError(f"{word or 'nothing'} is no broker: write 2 or b2", position)
        found.add(int(number))
        position += len(word) + 1
    return frozenset(found)


def _verdict(value: str, position: int) -> Test:
    wanted: set[Verdict] = set()
    for word in value.split(","):
        named = [verdict for verdict in Verdict if word and verdict.value.startswith(word.upper())]
        if not named:
            known = ", ".join(verdict.value.lower() for verdict in Verdict)
            raise FilterError(f"no verdict {word}: use {known}", position)
        wanted.update(named)
        position += len(word) + 1
    return Test(lambda row: row.verdict in wanted, alike=True)


def _action(value: str, _: int) -> Test:
    wanted = value.lower().replace("-", " ").split(",")
    return Test(
        lambda row: (
            row.action is not None and any(str(row.action).startswith(prefix) for prefix in wanted)
        ),
        alike=True,
    )


def _is(value: str, position: int) -> Test:
    if value.lower() not in _FLAGS:
        raise FilterError(f"no such thing as {value}: use {', '.join(_FLAGS)}", position)
    return _FLAGS[value.lower()]


_NUMBERED = re.compile(r"[-0-9]")
"""What the name of a partition may have beyond its topic's."""

_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "": operator.eq,
}


def _number(figure: Callable[[IncidentRow], Value]) -> Callable[[str, int], Test]:
    """A key whose values are ``>0``, ``<=1,000``, ``7`` or ``?`` for an unknown value."""

    def key(value: str, position: int) -> Test:
        if value == "?":
            return Test(lambda row: isinstance(figure(row), Unknown))
        read = re.fullmatch(r"(>=|<=|>|<|=|)([0-9][0-9_,]*)", value, re.ASCII)
        if read is None:
            raise FilterError(f"{value} is no number: write >0, <=1000, 7 or ?", position)
        compare = _COMPARISONS[read[1]]
        limit = int(re.sub("[_,]", "", read[2]))

        def keeps(row: IncidentRow) -> bool:
            found = figure(row)
            return isinstance(found, int) and compare(found, limit)

        return Test(keeps)

    return key


_FLAGS: dict[str, Test] = {
    INTERNAL: Test(lambda row: internal(row.partition), alike=True, of_topics=True),
    "bomb": Test(lambda row: row.verdict is Verdict.BOMB, alike=True),
    "automatable": Test(lambda row: row.automatable),
    "unknown": Test(lambda row: isinstance(row.loss, Unknown) or bool(row.unread)),
    "unjudged": Test(lambda row: row.verdict is None, alike=True),
}

_KEYS: dict[str, Callable[[str, int], Test]] = {
    "topic": _topic,
    "broker": _broker,
    "best": _best,
    "silent": _unread_of,
    "verdict": _verdict,
    "action": _action,
    "loss": _number(lambda row: row.loss),
    "unread": _number(lambda row: row.unread_at_least),
    "leo": _number(lambda row: row.log_end),
    "epoch": _number(lambda row: row.epoch),
    "heard": _number(lambda row: None if row.heard is None else row.heard[0]),
    "partition": _number(lambda row: row.partition.partition),
    "is": _is,
}

_EXAMPLES = {
    "topic": "topic:orders*",
    "broker": "broker:2",
    "best": "best:1",
    "silent": "silent:3",
    "verdict": "verdict:loss,fork",
    "action": "action:start",
    "loss": "loss:>0",
    "unread": "unread:>0",
    "leo": "leo:>1000",
    "epoch": "epoch:3",
    "heard": "heard:<2",
    "partition": "partition:<10",
    "is": "is:internal",
}
HELP = "  ".join(_EXAMPLES.values())
"""Every key with an example."""
