"""The language of the filter: ``orders broker:2 verdict:loss loss:>0 -is:internal``. Pure.

Words stand side by side and all must hold; ``-`` before one turns it round. A bare word is
looked for in the name. Values may be listed: ``verdict:loss,fork``.
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
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.recovery.judgement.precedence import internal

INTERNAL = "internal"
"""The only flag that may stand without ``is:``."""

Keeps = Callable[[IncidentRow], bool]
Value = int | Unknown | None


@dataclass(frozen=True, slots=True)
class Test:
    """What one word of a filter asks of a row."""

    keeps: Keeps
    alike: bool = False
    """Of rows with one topic, verdict and action it keeps all or none."""


class FilterError(UsageError):
    """A filter that cannot be read, and where."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position
        """Of the first character that is wrong, from 0."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows are listed."""

    text: str = ""
    """As it was written."""
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


def parse_filter(text: str) -> RowFilter:
    """Read *text*. Raises FilterError, which says what is wrong with which word."""
    wanted, fault = readable(text)
    if fault is not None:
        raise fault
    return wanted


def readable(text: str) -> tuple[RowFilter, FilterError | None]:
    """What of *text* can be read, while it is being written, and the first word that cannot."""
    tests: list[Test] = []
    fault: FilterError | None = None
    for one in re.finditer(r"\S+", text):
        try:
            tests.append(_word(one.group(), one.start()))
        except FilterError as error:
            fault = fault or error
    return RowFilter(text.strip(), tuple(tests)), fault


def _word(word: str, position: int) -> Test:
    if word.startswith("-") and len(word) > 1:
        test = _word(word[1:], position + 1)
        return Test(lambda row: not test.keeps(row), test.alike)
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
    return Test(lambda row: wanted in row.partition.topic.lower(), alike=True)


def _topic(value: str, _: int) -> Test:
    wanted = value.lower().split(",")
    patterns = [one if "*" in one or "?" in one else f"*{one}*" for one in wanted]
    return Test(
        lambda row: any(fnmatchcase(row.partition.topic.lower(), one) for one in patterns),
        alike=True,
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
    for one in value.split(","):
        number = one.lower().removeprefix("b")
        if not (number.isascii() and number.isdigit()):
            raise FilterError(f"{one or 'nothing'} is no broker: write 2 or b2", position)
        found.add(int(number))
        position += len(one) + 1
    return frozenset(found)


def _verdict(value: str, position: int) -> Test:
    wanted: set[Verdict] = set()
    for one in value.split(","):
        named = [verdict for verdict in Verdict if one and verdict.value.startswith(one.upper())]
        if not named:
            known = ", ".join(verdict.value.lower() for verdict in Verdict)
            raise FilterError(f"no verdict {one}: use {known}", position)
        wanted.update(named)
        position += len(one) + 1
    return Test(lambda row: row.verdict in wanted, alike=True)


def _action(value: str, _: int) -> Test:
    wanted = value.lower().replace("-", " ").split(",")
    return Test(
        lambda row: (
            row.action is not None and any(str(row.action).startswith(one) for one in wanted)
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
    """A key whose values are ``>0``, ``<=1,000``, ``7`` or ``?`` for what is not known."""

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
    INTERNAL: Test(lambda row: internal(row.partition), alike=True),
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
