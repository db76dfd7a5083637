"""Which records of a cut tail are put back."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from breakglass.services.model import EpochHistory, EpochRange, Unknown
from breakglass.services.pipeline.restore.tail import (
    ABORTED,
    THERE,
    TWICE,
    UNDECIDED,
    ElectedLog,
    Fates,
    TailChoice,
    TailRecord,
    content,
    epochs_of,
    fates_of,
)
from breakglass.services.topic_backup.batch_log import BatchState
from breakglass.services.topic_backup.record import Record, TimestampType
from breakglass.services.topic_backup.summary import EpochStart, PartitionSummary, SegmentSummary

HISTORY = EpochHistory((EpochRange(0, 0, 10), EpochRange(2, 10, 30)), 0)
"""Cut at 10 by an election: what epoch 1 wrote from there on is gone."""


def lacking(log: ElectedLog, offsets: list[int], epochs: list[int]) -> list[int]:
    found = log.lacks(np.array(offsets), np.array(epochs))
    return [offsets[int(number)] for number in found]


def test_a_record_of_another_epoch_is_not_in_the_log() -> None:
    offsets, epochs = [3, 8, 9, 10, 12, 40], [0, 0, 0, 1, 2, 2]
    assert lacking(ElectedLog(5, HISTORY), offsets, epochs) == [10, 40]


def test_where_epochs_are_not_known_content_has_to_tell() -> None:
    assert lacking(ElectedLog(5, HISTORY), [3, 8, 12], [-1, -1, -1]) == [8, 12]
    assert lacking(ElectedLog(5, Unknown("no answer")), [3, 8], [0, 0]) == [8]


def test_epochs_are_those_of_each_segment_alone() -> None:
    """A history that does not go back to a segment's start tells nothing of what is before."""
    part = PartitionSummary(
        0,
        30,
        (
            SegmentSummary("a", 0, 1, "", 10, 0, 9, epochs=(EpochStart(0, 0), EpochStart(1, 5))),
            SegmentSummary("b", 10, 1, "", 10, 10, 19),
            SegmentSummary("c", 20, 1, "", 10, 20, 29, epochs=(EpochStart(4, 25),)),
        ),
    )
    offsets = np.array([0, 4, 5, 9, 10, 19, 20, 24, 25, 29, 30])
    assert epochs_of(part, offsets).tolist() == [0, 0, 1, 1, -1, -1, -1, -1, 4, 4, -1]


def test_content_is_the_same_wherever_a_record_is_put_back() -> None:
    appended = Record(1, TimestampType.LOG_APPEND, 5, b"k", b"v", ((b"h", None),))
    back = appended._replace(offset=70, timestamp_type=TimestampType.CREATE)
    assert content(appended) == content(back)
    for other in (
        back._replace(timestamp=6),
        back._replace(key=b""),
        back._replace(value=None),
        back._replace(headers=()),
    ):
        assert content(other) != content(back)


def candidate(offset: int, text: bytes | None = None) -> TailRecord:
    return TailRecord(offset, text or b"%d" % offset)


def test_what_is_there_already_is_put_back_as_often_as_it_lacks() -> None:
    choice = TailChoice(Counter({b"x": 1, b"4": 1}))
    stored = [candidate(0, b"x"), candidate(1, b"x"), *map(candidate, range(2, 6))]
    assert choice.choose(stored, Fates()) == ((1, 4), (5, 6))
    assert choice.left_out == {THERE: 2}


def test_a_record_of_two_replicas_is_put_back_once_and_a_fork_twice() -> None:
    choice = TailChoice(Counter())
    assert choice.choose([candidate(5), candidate(6)], Fates()) == ((5, 7),)
    assert choice.choose([candidate(5), candidate(6, b"fork")], Fates()) == ((6, 7),)
    assert choice.left_out == {TWICE: 1}


def state(base: int, last: int, producer: int = 7, marker: str | None = None) -> BatchState:
    return BatchState(base, last, 0, 1, 0, 0, producer, 0, 0, True, marker, None)


def test_only_committed_transactions_are_put_back() -> None:
    fates = fates_of(
        [
            state(0, 1),
            state(2, 3, producer=8),
            state(4, 4, marker="commit"),
            state(5, 6),
            state(7, 7, marker="abort"),
            state(8, 9),
        ]
    )
    choice = TailChoice(Counter())
    assert choice.choose(map(candidate, range(10)), fates) == ((0, 2), (4, 5), (7, 8))
    assert choice.left_out == {UNDECIDED: 4, ABORTED: 2}


@pytest.mark.parametrize("offset", [0, 4, 7])
def test_records_outside_transactions_have_no_fate(offset: int) -> None:
    assert Fates(((1, 3),), ((5, 7),)).of(offset) is None
