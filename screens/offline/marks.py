"""Which partitions are marked, and which lines show it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from services.incident.cells import Listed
from services.incident.groups import Group
from services.incident.row import Row
from services.model import TopicPartition


class Marks:
    """Partitions the operator has marked: by topic, for there may be 100,000.

    Holds the key of a partition that is marked, and of a group all of whose partitions are.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, set[int]] = {}
        self._groups: dict[object, Group] = {}
        self._whole: dict[object, bool] = {}
        """Groups that were looked at since anything was marked."""

    def __len__(self) -> int:
        return sum(map(len, self._numbers.values()))

    def __contains__(self, key: object) -> bool:
        if isinstance(key, TopicPartition):
            return key.partition in self._numbers.get(key.topic, ())
        group = self._groups.get(key)
        if group is None:
            return False
        if key not in self._whole:
            self._whole[key] = self._all_of(group.rows)
        return self._whole[key]

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All that are marked, sorted."""
        held = sorted(self._numbers.items())
        return tuple(
            [TopicPartition(topic, one) for topic, numbers in held for one in sorted(numbers)]
        )

    def show(self, groups: Iterable[Group]) -> None:
        """These groups are listed from now on."""
        self._groups = {one.key: one for one in groups}
        self._whole.clear()

    def toggle(self, groups: Sequence[Sequence[Row]]) -> None:
        """Mark the rows of all *groups*, each of one topic; where all are marked, none."""
        marked = all(self._all_of(rows) for rows in groups)
        for rows in groups:
            held = self._numbers.setdefault(rows[0].partition.topic, set())
            if marked:
                held.difference_update(_numbers(rows))
            else:
                held.update(_numbers(rows))
        self._whole.clear()

    def keep(self, rows: Iterable[Row]) -> None:
        """Only *rows* are offline: what is marked besides is forgotten."""
        if not len(self):
            return
        here: dict[str, set[int]] = {}
        for row in rows:
            partition = row.state.partition
            here.setdefault(partition.topic, set()).add(partition.partition)
        for topic, numbers in self._numbers.items():
            numbers.intersection_update(here.get(topic, ()))
        self._whole.clear()

    def clear(self) -> None:
        self._numbers.clear()
        self._whole.clear()

    def _all_of(self, rows: Sequence[Row]) -> bool:
        return self._numbers.get(rows[0].partition.topic, set()).issuperset(_numbers(rows))


def _numbers(rows: Sequence[Row]) -> list[int]:
    return [one.state.partition.partition for one in rows]


def line_key(line: Listed) -> Hashable:
    """What a line is found again by."""
    return line.key if isinstance(line, Group) else line.state.partition


def rows_of(line: Listed | None) -> Sequence[Row]:
    """What a line stands for."""
    if line is None:
        return ()
    return line.rows if isinstance(line, Group) else (line,)
