"""Which lines of the partition list show that they are marked."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from breakglass.screens.offline.partition_list import Marks
from breakglass.services.incident.row import IncidentRow, group_of
from tests.kit.incidents import many_offline


def test_marks_of_partitions_that_have_a_leader_again_are_forgotten() -> None:
    rows = many_offline(40, topics=2).rows
    marks = Marks()
    marks.toggle(rows[:3])
    marks.keep(rows, (rows[0], replace(rows[2], log_end=7), *rows[3:]))
    assert marks.partitions == (rows[0].partition, rows[2].partition)
    marks.keep(rows, rows[10:])
    assert not len(marks)


ROWS = many_offline(24, topics=1).rows


@given(st.lists(st.lists(st.sampled_from(ROWS), min_size=1, unique=True), max_size=6))
def test_groups_and_partitions_are_marked_as_in_a_set(parts: list[list[IncidentRow]]) -> None:
    marks, expected = Marks(), set[IncidentRow]()
    for rows in parts:
        rows.sort(key=lambda row: row.partition)
        group = group_of(rows)
        marks.show({group.key: group})
        marks.toggle([rows[0] if len(rows) == 1 else group])
        expected = expected - set(rows) if expected >= set(rows) else expected | set(rows)
        assert marks.partitions == tuple(sorted(row.partition for row in expected))
