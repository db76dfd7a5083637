"""Which partitions are marked, and which lines show it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import cast

from breakglass.services.incident.row import GroupKey, IncidentRow, Listed, PartitionGroup
from breakglass.services.model import TopicPartition
from breakglass.services.same_ends import differing

Numbers = frozenset[int] | range
"""Partitions of one topic; a range where all of a group are, for that takes no time."""


class Marks:
    """Partitions the operator has marked: by topic, for there may be 100,000.

    Holds the key of a partition that is marked, and of a group all of whose partitions are.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, Numbers] = {}
        self._groups: Mapping[GroupKey, PartitionGroup] = {}
        """What is listed, by key."""
        self._members: dict[object, Numbers] = {}
        """Of groups that were looked at: taking 50,000 numbers off their rows can be felt."""
        self._whole: dict[object, bool] = {}
        """Groups that were looked at since anything was marked."""

    def __len__(self) -> int:
        return sum(map(len, self._numbers.values()))

    def __contains__(self, key: object) -> bool:
        if isinstance(key, TopicPartition):
            return key.partition in self._numbers.get(key.topic, ())
        group = self._groups.get(cast("GroupKey", key))
        if group is None or group.topic not in self._numbers:
            return False
        if key not in self._whole:
            self._whole[key] = self._marked(group)
        return self._whole[key]

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        held = sorted(self._numbers.items())
        return tuple(
            [TopicPartition(topic, number) for topic, numbers in held for number in sorted(numbers)]
        )

    def show(self, groups: Mapping[GroupKey, PartitionGroup]) -> None:
        self._groups = groups
        self._members.clear()
        self._whole.clear()

    def toggle(self, lines: Sequence[Listed]) -> None:
        """Mark what all *lines* stand for; where all of it is marked, nothing."""
        marked = all(self._marked(line) for line in lines)
        for line in lines:
            held, numbers = self._held(line), self._numbers_of(line)
            both = frozenset(held) | frozenset(numbers) if held else numbers
            self._numbers[topic_of(line)] = _without(held, numbers) if marked else both
        self._whole.clear()

    def keep(self, before: Sequence[IncidentRow], rows: Sequence[IncidentRow]) -> None:
        """*rows* are offline in place of those *before*: what is no longer is forgotten."""
        if not len(self):
            return
        was, now = differing(before, rows)
        then, here = self._of_topics(before[was]), self._of_topics(rows[now])
        for topic, numbers in then.items():
            gone = frozenset(numbers - here.get(topic, set()))
            self._numbers[topic] = _without(self._numbers[topic], gone)
        self._whole.clear()

    def _of_topics(self, rows: Iterable[IncidentRow]) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for row in rows:
            partition = row.state.partition
            if partition.topic in self._numbers:
                found.setdefault(partition.topic, set()).add(partition.partition)
        return found

    def clear(self) -> None:
        self._numbers.clear()
        self._whole.clear()

    def _marked(self, line: Listed) -> bool:
        held = self._held(line)
        if isinstance(line, PartitionGroup) and len(held) < len(line.rows):
            # Most groups are drawn while none, or few, of their partitions are marked.
            return False
        numbers = self._numbers_of(line)
        return numbers == held or frozenset(numbers) <= frozenset(held)

    def _held(self, line: Listed) -> Numbers:
        return self._numbers.get(topic_of(line), frozenset())

    def _numbers_of(self, line: Listed) -> Numbers:
        if not isinstance(line, PartitionGroup):
            return frozenset((line.partition.partition,))
        if line.span is not None:
            return line.span
        found = self._members.get(line.key)
        if found is None:
            found = frozenset([row.state.partition.partition for row in line.rows])
            self._members[line.key] = found
        return found


def _without(held: Numbers, numbers: Numbers) -> Numbers:
    if not numbers:
        return held
    return frozenset() if held == numbers else frozenset(held) - frozenset(numbers)


def topic_of(line: Listed) -> str:
    """The topic of what a line stands for."""
    return line.topic if isinstance(line, PartitionGroup) else line.partition.topic


def line_key(line: Listed) -> Hashable:
    """What a line is found again by."""
    return line.key if isinstance(line, PartitionGroup) else line.state.partition


def rows_of(line: Listed | None) -> Sequence[IncidentRow]:
    """What a line stands for."""
    if line is None:
        return ()
    return line.rows if isinstance(line, PartitionGroup) else (line,)
