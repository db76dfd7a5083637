"""Which records were there before: those that do not lie behind the last of their writer (H7)."""

from __future__ import annotations

from breakglass.services.checkpoint.kafka.stamps import RecordAddress, RecordOrigin, Stamp
from breakglass.services.checkpoint.participant.positions import KnownRecords

TOPIC_ID = "c" * 32


def record(offset: int, index: int = 0, *, partition: int = 0, group: str = "g") -> Stamp:
    return Stamp(1, RecordOrigin(RecordAddress(TOPIC_ID, partition, offset), index, group))


def taken(*stamps: Stamp) -> list[bool]:
    known = KnownRecords()
    return [known.take(stamp) for stamp in stamps]


def test_h07_a_record_that_was_written_twice_is_taken_once() -> None:
    assert taken(record(1), record(2), record(1), record(2), record(3)) == [
        True,
        True,
        False,
        False,
        True,
    ]


def test_h07_outputs_of_one_input_are_told_apart() -> None:
    assert taken(record(1, 0), record(1, 1), record(1, 0)) == [True, True, False]


def test_h07_writers_are_told_apart_by_partition_group_and_timeline() -> None:
    elsewhere = Stamp(1, RecordOrigin(RecordAddress("d" * 32, 0, 1), 0, "g"))
    others = (record(1, partition=1), record(1, group="h"), elsewhere)
    assert taken(record(1), *others) == [True] * 4


def test_what_comes_from_outside_is_always_new() -> None:
    assert taken(Stamp(0, None), Stamp(0, None)) == [True, True]


def test_what_was_seen_can_be_noted_and_gone_on_with() -> None:
    before = KnownRecords()
    for stamp in (record(1), record(5, 2), record(3, partition=1)):
        before.take(stamp)
    known = KnownRecords(before.lasts)
    again = (record(5, 2), record(3, partition=1), record(5, 3))
    assert [known.take(stamp) for stamp in again] == [False, False, True]
    assert known.lasts[1:] == before.lasts[1:]
