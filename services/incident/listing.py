"""The list of offline partitions as it is viewed: filtered, sorted and grouped. Pure.

Partitions that cannot wait come first; a forecast says what happens by itself. A list of 100,000
rows takes a tenth of a second, so screens make it in a thread; a filter that keeps or drops whole
groups takes no time.

The filter's language: ``orders broker:2 verdict:loss loss:>0 -is:internal``. A row must match all
words; ``-`` before a word negates it. A bare word is looked for in the name. A key takes several
values: ``verdict:loss,fork``.
"""

from __future__ import annotations

import operator
import re
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain, compress
from operator import attrgetter
from typing import Any

from breakglass.services.errors import UsageError
from breakglass.services.incident.row import (
    GroupKey,
    IncidentRow,
    Listed,
    PartitionGroup,
    group_of,
    grouped,
    row_partition,
)
from breakglass.services.model import INTERNAL_TOPICS, TopicPartition, Unknown
from breakglass.services.recovery.judgement.assessment import Verb, Verdict, internal
from breakglass.services.same_ends import differing

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
    if key.lower() not in _FILTERS:
        raise FilterError(f"no key {key}: use {', '.join(_KEYS)}", position)
    at = position + len(key) + 1
    if not value:
        raise FilterError(f"{key}: wants a value, such as {_EXAMPLES[key.lower()]}", at)
    return _FILTERS[key.lower()](value, at)


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

_FILTERS: dict[str, Callable[[str, int], Test]] = {
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


_URGENCY = {verdict: place for place, verdict in enumerate(Verdict)}
_INTERNAL = {topic: place for place, topic in enumerate(INTERNAL_TOPICS)}
_UNKNOWN = 1 << 62
"""More than any number: an unknown value may be the worst."""


class RowOrder(StrEnum):
    """The sort key of a list; equal rows are sorted by urgency."""

    URGENCY = "urgency"
    """Time bombs, then internal topics, then by verdict."""
    TOPIC = "topic"
    LOSS = "loss"
    """The largest first; unknown ones before them."""
    UNREAD = "unread"
    LEO = "leo"
    EPOCH = "epoch"
    HEARD = "heard"
    """Partitions of which fewest replicas have answered first."""


def ordered(rows: Sequence[IncidentRow], order: RowOrder = RowOrder.URGENCY) -> list[IncidentRow]:
    """*rows*, which are sorted by partition, as *order* wants them."""
    if order is RowOrder.TOPIC:
        return list(rows)
    # Time bombs, internal topics, then verdict, action and name. There are few kinds of rows:
    # each is compared once, and of a row nothing is kept but its kind.
    rows_of: dict[Kind, list[IncidentRow]] = {}
    alike: dict[tuple[int, Verdict | None, int], list[IncidentRow]] = {}
    for row in rows:
        internal = _INTERNAL.get(row.state.partition.topic, len(_INTERNAL))
        judged = row.judged
        # Few actions differ, and those that are equal are one value (`action_of`), or a few.
        conclusion = (None, 0) if judged is None else (judged.verdict, id(judged.action))
        like = (internal, *conclusion)
        together = alike.get(like)
        if together is None:
            together = alike[like] = rows_of.setdefault(_kind(row, internal), [])
        together.append(row)
    listed = list(chain.from_iterable(rows_of[kind] for kind in sorted(rows_of)))
    if order is not RowOrder.URGENCY:
        listed.sort(key=_KEYS[order])
    return listed


Kind = tuple[bool, int, int, str]
"""If it is no time bomb, place of an internal topic and of the verdict, action: what is first."""


def _kind(row: IncidentRow, internal: int) -> Kind:
    if row.judged is None:
        return True, internal, len(_URGENCY), ""
    verdict = row.judged.verdict
    return verdict is not Verdict.BOMB, internal, _URGENCY[verdict], str(row.judged.action)


def _most_first(value: int | Unknown | None) -> int:
    """The largest first; unknown values before it, missing values last."""
    if isinstance(value, int):
        return -value
    return 1 if value is None else -_UNKNOWN


def _fewest_heard(row: IncidentRow) -> tuple[int, int]:
    heard, of = row.heard or (0, 0)
    return heard, -of


_KEYS: dict[RowOrder, Callable[[IncidentRow], Any]] = {
    RowOrder.LOSS: lambda row: _most_first(row.loss),
    RowOrder.UNREAD: lambda row: _most_first(row.unread_at_least),
    RowOrder.LEO: lambda row: _most_first(row.log_end),
    RowOrder.EPOCH: lambda row: _most_first(row.epoch),
    RowOrder.HEARD: _fewest_heard,
}


ALL = RowFilter()


@dataclass(frozen=True, slots=True)
class ListingView:
    """The view of the list: its filter and its order."""

    filter: RowFilter = ALL
    order: RowOrder = RowOrder.URGENCY


@dataclass(frozen=True)
class Listing:
    """The groups, and the visible lines."""

    groups: tuple[PartitionGroup, ...] = ()
    opened: frozenset[GroupKey] = frozenset()
    """Keys of opened groups, whether the groups are listed or not."""
    known: Mapping[GroupKey, PartitionGroup] | None = field(default=None, repr=False, compare=False)
    """`by_key` of a listing that has these groups and perhaps others; None: not made yet."""

    @cached_property
    def lines(self) -> tuple[Listed, ...]:
        """A line for each group, and for each partition that is alone or in an opened group."""
        lines: list[Listed] = [
            group.rows[0] if len(group.rows) == 1 else group for group in self.groups
        ]
        if not self.spread:
            return tuple(lines)
        beneath: list[Listed] = []
        for line in lines:
            beneath.append(line)
            if isinstance(line, PartitionGroup) and line.key in self.spread:
                beneath.extend(line.rows)
        return tuple(beneath)

    @cached_property
    def spread(self) -> frozenset[GroupKey]:
        """Keys of the groups whose partitions have lines below them, where they are listed."""
        held = [self.by_key[key] for key in self.opened if key in self.by_key]
        return frozenset([group.key for group in held if len(group.rows) > 1])

    @cached_property
    def kept(self) -> int:
        """The number of partitions that the filter keeps."""
        return sum(map(len, map(_ROWS, self.groups)))

    @cached_property
    def of_topics(self) -> dict[str, PartitionGroup]:
        """A group of each topic."""
        return dict(zip(map(_TOPIC, self.groups), self.groups, strict=True))

    @cached_property
    def of_conclusions(self) -> dict[Conclusion, PartitionGroup]:
        """A group of each verdict and action."""
        return dict(zip(_conclusions(self.groups), self.groups, strict=True))

    @cached_property
    def by_key(self) -> Mapping[GroupKey, PartitionGroup]:
        """The groups by verdict, action and topic; there may be some that are not listed."""
        if self.known is not None:
            return self.known
        return {group.key: group for group in self.groups}

    def with_opened(self, key: GroupKey, opened: bool) -> Listing:
        """The listing with a group opened or closed."""
        keys = self.opened | {key} if opened else self.opened - {key}
        return replace(self, opened=keys, known=self.by_key)


def listing(
    rows: Sequence[IncidentRow],
    view: ListingView,
    opened: frozenset[GroupKey] = frozenset(),
    keep: TopicPartition | None = None,
) -> Listing:
    """List *rows* as *view* wants them; the group of the partition to *keep* is opened for it."""
    kept = [row for row in rows if view.filter.keeps(row)] if view.filter else rows
    groups = tuple(grouped(ordered(kept, view.order)))
    return Listing(groups, _opened_for(keep, groups, opened))


def narrowed(
    whole: Listing,
    view: ListingView,
    opened: frozenset[GroupKey] = frozenset(),
    keep: TopicPartition | None = None,
) -> Listing | None:
    """What `listing` makes of all rows, found in *whole*, which lists them as `ListingView()` does.

    None if each row has to be looked at. By topic it does not: each group has its rows in the
    order of their partitions already.
    """
    if view.order not in (RowOrder.URGENCY, RowOrder.TOPIC) or not view.filter.alike:
        return None
    groups: Sequence[PartitionGroup] = whole.groups
    for test in view.filter.tests:
        groups = _that_pass(test, groups, whole)
    if view.order is RowOrder.TOPIC:
        groups = sorted(groups, key=_topic_and_number)
    opened = _opened_for(keep, groups, opened)
    if groups is whole.groups and opened == whole.opened:
        return whole
    return Listing(tuple(groups), opened, whole.by_key)


def relisted(whole: Listing, before: Sequence[IncidentRow], rows: Sequence[IncidentRow]) -> Listing:
    """What `listing` makes of *rows* by urgency, of *whole*, which is that of the rows *before*.

    Only groups are made again whose rows are not the very same ones.
    """
    was, now = differing(before, rows)
    gone, fresh = set(before[was]), set(rows[now])
    gone, fresh = gone - fresh, fresh - gone
    if len(fresh) > len(rows) * MOST_RELISTED:
        return listing(rows, ListingView(), whole.opened)
    keys = {group_key(row) for row in chain(gone, fresh)}
    old = {whole.by_key[key] for key in keys if key in whole.by_key}
    stay = [row for group in old for row in group.rows if row not in gone]
    made = grouped(ordered(sorted([*stay, *fresh], key=row_partition)))
    groups = [group for group in whole.groups if group not in old]
    for group in made:
        insort(groups, group, key=_urgency)
    by_key = {**whole.by_key, **{group.key: group for group in made}}
    for key in keys.difference([group.key for group in made]):
        by_key.pop(key, None)
    return Listing(tuple(groups), whole.opened, by_key)


MOST_RELISTED = 0.1
"""The share of rows from which on it is quicker to list all of them."""


def _that_pass(
    test: Test, groups: Sequence[PartitionGroup], whole: Listing
) -> Sequence[PartitionGroup]:
    """The *groups*, of *whole*, whose rows pass *test*; the very same where all do.

    Where each broker that is down has its own action there may be 100,000 groups, of few topics
    and conclusions, each of which is asked about once.
    """
    if test.of_topics:
        topics = {topic for topic, group in whole.of_topics.items() if test.keeps(group.rows[0])}
        if len(topics) == len(whole.of_topics):
            return groups
        return list(compress(groups, map(topics.__contains__, map(_TOPIC, groups))))
    conclusions = {
        conclusion
        for conclusion, group in whole.of_conclusions.items()
        if test.keeps(group.rows[0])
    }
    if len(conclusions) == len(whole.of_conclusions):
        return groups
    return list(compress(groups, map(conclusions.__contains__, _conclusions(groups))))


Conclusion = tuple[int, int]
"""Which value the verdict is, and the action: equal actions are one value, or a few."""


def _conclusions(groups: Sequence[PartitionGroup]) -> Iterator[Conclusion]:
    """Of each group, without a step of Python for it: there may be 100,000."""
    return zip(map(id, map(_VERDICT, groups)), map(id, map(_ACTION, groups)), strict=True)


_TOPIC, _VERDICT, _ACTION = attrgetter("topic"), attrgetter("verdict"), attrgetter("action")
_ROWS = attrgetter("rows")


def group_key(row: IncidentRow) -> GroupKey:
    """The key of the group that *row* is in."""
    return row.verdict, row.action, row.partition.topic


def _opened_for(
    keep: TopicPartition | None, groups: Sequence[PartitionGroup], opened: frozenset[GroupKey]
) -> frozenset[GroupKey]:
    if keep is None:
        return opened
    topic = keep.topic
    of_topic = [group for group in groups if group.topic == topic and len(group.rows) > 1]
    return opened.union([group.key for group in of_topic if _holds(group, keep)])


def _urgency(group: PartitionGroup) -> tuple[Kind, TopicPartition]:
    """Where *group* stands: as its first row does in `_by_urgency`."""
    row = group.rows[0]
    internal = _INTERNAL.get(group.topic, len(_INTERNAL))
    return _kind(row, internal), row.state.partition


def _topic_and_number(group: PartitionGroup) -> tuple[str, int]:
    """As its first partition sorts, found out once."""
    return group.topic, group.rows[0].state.partition.partition


def _holds(group: PartitionGroup, partition: TopicPartition) -> bool:
    # Partitions are compared by their numbers alone: a group may have 50,000.
    wanted = partition.partition
    return any(row.state.partition.partition == wanted for row in group.rows)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Partitions with the same fate if nobody intervenes."""

    successor: int | None
    """The broker that the controller elects; None: the partitions stay offline."""
    harmful: bool
    """The election destroys records that others have (R2)."""
    whole: bool
    """The successor lacks nothing that was read."""
    rows: tuple[IncidentRow, ...]

    @property
    def topics(self) -> tuple[PartitionGroup, ...]:
        """The partitions by topic, each as one group."""
        by_topic: dict[str, list[IncidentRow]] = {}
        for row in self.rows:
            by_topic.setdefault(row.partition.topic, []).append(row)
        return tuple([group_of(rows) for rows in by_topic.values()])


@dataclass(frozen=True, slots=True)
class Restorer:
    """A broker that would bring partitions back whole, if its disk has all that it had."""

    broker: int
    partitions: int
    runs: bool
    """The broker runs but is cut off from the controllers: reconnect it."""
    first: Verb | None = None
    """What is done before it starts, where an election passed it over, or may have (R27, R46)."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The fate of some partitions."""

    outlooks: tuple[Outlook, ...]
    """First those with harm, then those that come back, then those that stay offline."""
    restores: tuple[Restorer, ...]
    """The broker that brings back most first."""
    unread: int
    """Partitions that have not been judged."""


def forecast_of(rows: Sequence[IncidentRow]) -> Forecast:
    """The fate of *rows* if nobody intervenes, and the brokers that would bring them back.

    They are sorted by partition.
    """
    by_outcome: dict[tuple[bool, bool, int | None], list[IncidentRow]] = {}
    for row in ordered(rows):
        conclusion = row.judged
        if conclusion is not None:
            harmful, whole = conclusion.verdict is _BOMB, conclusion.action.verb is _AWAIT
            by_outcome.setdefault((harmful, whole, conclusion.successor), []).append(row)
    outlooks = [
        Outlook(successor, harmful, whole, tuple(together))
        for (harmful, whole, successor), together in by_outcome.items()
    ]
    outlooks.sort(
        key=lambda outlook: (not outlook.harmful, outlook.successor is None, -len(outlook.rows))
    )
    judged = sum(len(outlook.rows) for outlook in outlooks)
    return Forecast(tuple(outlooks), _restores(rows), len(rows) - judged)


_BOMB, _AWAIT = Verdict.BOMB, Verb.AWAIT
"""Looked up once: Python 3.11 makes a call of that."""


def _restores(rows: Iterable[IncidentRow]) -> tuple[Restorer, ...]:
    """Brokers that have to be started or reconnected; successors are not among them."""
    alike: Counter[tuple[Verb, tuple[int, ...]]] = Counter(
        [
            (row.judged.action.verb, row.judged.restorers)
            for row in rows
            if row.judged is not None and row.judged.restorers
        ]
    )
    gain: Counter[int] = Counter()
    absent: set[int] = set()
    first: dict[int, Verb] = {}
    for (verb, restorers), partitions in alike.items():
        if verb not in (Verb.START, Verb.SAVE, Verb.CHECK, Verb.RECONNECT):
            continue
        for broker in restorers:
            gain[broker] += partitions
        if verb is not Verb.RECONNECT:
            absent.update(restorers)
        if verb in (Verb.SAVE, Verb.CHECK):
            first |= dict.fromkeys(restorers, verb)
    most_first = sorted(gain.items(), key=lambda item: (-item[1], item[0]))
    return tuple(
        [
            Restorer(broker, number, broker not in absent, first.get(broker))
            for broker, number in most_first
        ]
    )
