"""Which partitions are marked, and which lines show it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from breakglass.services.incident.cells import Listed
from breakglass.services.incident.groups import PartitionGroup
from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import TopicPartition


class Marks:
    """Partitions the operator has marked: by topic, for there may be 100,000.

    Holds the key of a partition that is marked, and of a group all of whose partitions are.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, frozenset[int]] = {}
        self._listed: Iterable[PartitionGroup] = ()
        self._groups: dict[object, PartitionGroup] | None = None
        """What is listed of topics with marks, by key; None: not looked for since marks changed."""
        self._members: dict[object, frozenset[int]] = {}
        """Of groups that were looked at: taking 50,000 numbers off their rows can be felt."""
        self._whole: dict[object, bool] = {}
        """Groups that were looked at since anything was marked."""

    def __len__(self) -> int:
        return sum(map(len, self._numbers.values()))

    def __contains__(self, key: object) -> bool:
        if isinstance(key, TopicPartition):
            return key.partition in self._numbers.get(key.topic, ())
        if not len(self):
            return False
        if self._groups is None:
            marked = self._numbers
            self._groups = {group.key: group for group in self._listed if group.topic in marked}
        group = self._groups.get(key)
        if group is None:
            return False
        if key not in self._whole:
            self._whole[key] = self._marked(group)
        return self._whole[key]

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All that are marked, sorted."""
        held = sorted(self._numbers.items())
        return tuple(
            [TopicPartition(topic, number) for topic, numbers in held for number in sorted(numbers)]
        )

    def show(self, groups: Iterable[PartitionGroup]) -> None:
        """These groups are listed from now on."""
        self._listed, self._groups = groups, None
        self._members.clear()
        self._whole.clear()

    def toggle(self, lines: Sequence[Listed]) -> None:
        """Mark what all *lines* stand for; where all of it is marked, nothing."""
        marked = all(self._marked(line) for line in lines)
        for line in lines:
            held, numbers = self._held(line), self._numbers_of(line)
            self._numbers[topic_of(line)] = held - numbers if marked else held | numbers
        self._groups = None
        self._whole.clear()

    def keep(self, rows: Iterable[IncidentRow]) -> None:
        """Only *rows* are offline: what is marked besides is forgotten."""
        if not len(self):
            return
        here: dict[str, set[int]] = {}
        for row in rows:
            partition = row.state.partition
            here.setdefault(partition.topic, set()).add(partition.partition)
        gone: frozenset[int] = frozenset()
        held = self._numbers.items()
        self._numbers = {topic: numbers & here.get(topic, gone) for topic, numbers in held}
        self._whole.clear()

    def clear(self) -> None:
        self._numbers.clear()
        self._groups = None
        self._whole.clear()

    def _marked(self, line: Listed) -> bool:
        """Whether all that *line* stands for is marked."""
        held = self._held(line)
        if isinstance(line, PartitionGroup) and len(held) < len(line.rows):
            # Most groups are drawn while none, or few, of their partitions are marked.
            return False
        return self._numbers_of(line) <= held

    def _held(self, line: Listed) -> frozenset[int]:
        """What is marked of its topic."""
        return self._numbers.get(topic_of(line), frozenset())

    def _numbers_of(self, line: Listed) -> frozenset[int]:
        if not isinstance(line, PartitionGroup):
            return frozenset((line.partition.partition,))
        found = self._members.get(line.key)
        if found is None:
            found = frozenset([row.state.partition.partition for row in line.rows])
            self._members[line.key] = found
        return found


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
