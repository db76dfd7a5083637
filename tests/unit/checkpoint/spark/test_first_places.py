"""Where records were first, after a second restore: the outputs of their readers bear that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.checkpoint.kafka.control import MovedRecords
from breakglass.services.checkpoint.kafka.stamps import RecordAddress
from breakglass.services.checkpoint.spark.restore import first_places

FIRST, SECOND = "first", "second"


def moved(topic: str, old: int, new: int, count: int) -> MovedRecords:
    return MovedRecords(RecordAddress(topic, 0, old), new, count)


def test_what_no_restore_has_moved_is_where_it_is() -> None:
    records = moved(SECOND, 5, 0, 9)
    assert list(first_places(records, ())) == [records]


def test_a_stretch_over_gaps_of_the_first_log_comes_in_pieces() -> None:
    """A marker lay between, which the first restore has left out."""
    before = (moved(FIRST, 50, 2, 2), moved(FIRST, 53, 4, 3))
    assert list(first_places(moved(SECOND, 0, 100, 10), before)) == [
        moved(SECOND, 0, 100, 2),
        moved(FIRST, 50, 102, 2),
        moved(FIRST, 53, 104, 3),
        moved(SECOND, 7, 107, 3),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(0, 3)), max_size=6),
    st.integers(0, 20),
    st.integers(1, 20),
)
def test_each_record_has_the_place_that_the_earlier_restore_noted(
    stretches: list[tuple[int, int, int]], start: int, count: int
) -> None:
    """*stretches*: unmoved records before it, its records, and the gap that the first log had."""
    before, old, new = list[MovedRecords](), 1_000, 0
    for unmoved, some, gap in stretches:
        new, old = new + unmoved, old + gap
        before.append(moved(FIRST, old, new, some))
        new, old = new + some, old + some
    by_record = {
        records.new_offset + shift: (FIRST, records.old.offset + shift)
        for records in before
        for shift in range(records.count)
    }
    found = [
        (records.new_offset + shift, (records.old.topic_id, records.old.offset + shift))
        for records in first_places(moved(SECOND, start, 500, count), before)
        for shift in range(records.count)
    ]
    assert found == [
        (500 + place - start, by_record.get(place, (SECOND, place)))
        for place in range(start, start + count)
    ]
