"""Which lines of the partition list show that they are marked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

from breakglass.screens.offline.marks import Marks
from breakglass.services.incident.groups import PartitionGroup, grouped
from breakglass.services.incident.row import IncidentRow
from tests.kit.incidents import many_offline


class Closed(tuple[IncidentRow, ...]):
    """Rows that tell how many there are, and nothing of each."""

    __slots__ = ()

    def __iter__(self) -> NoReturn:
        raise AssertionError("each row was looked at")


def groups() -> Iterator[PartitionGroup]:
    yield from grouped(many_offline(40, topics=1).rows)


def test_a_group_none_or_few_of_which_are_marked_takes_no_look_at_each_row() -> None:
    group = next(groups())
    closed = replace(group, rows=Closed(group.rows))
    marks = Marks()
    marks.show({closed.key: closed})
    assert group.key not in marks
    marks.toggle([group.rows[0]])
    assert group.key not in marks


def test_a_group_all_of_which_is_marked_shows_it() -> None:
    group = next(groups())
    marks = Marks()
    marks.show({group.key: group})
    marks.toggle(group.rows)
    assert group.key in marks


def test_marks_of_partitions_that_are_no_longer_offline_are_forgotten() -> None:
    rows = many_offline(40, topics=2).rows
    marks = Marks()
    marks.toggle(rows[:3])
    marks.keep(rows, (rows[0], replace(rows[2], log_end=7), *rows[3:]))
    assert marks.partitions == (rows[0].partition, rows[2].partition)
    marks.keep(rows, rows[10:])
    assert not len(marks)
