"""The range of a partition's log is divided between tasks without a gap or a double."""

from __future__ import annotations

import pytest

from breakglass.services.pipeline.batches.log_range import OFFSETS_A_TASK, LogRange, divided
from tests.kit.fake_metadata import TOPIC_ID
from tests.unit.pipeline.batches.fake_log import ORDERS


def lying(start: int, end: int) -> LogRange:
    return LogRange(ORDERS, TOPIC_ID, 1, start, end)


@pytest.mark.parametrize(
    ("lengths", "cores", "tasks"),
    [((2,), 2, 2), ((9,), 2, 2), ((3, 1), 4, 4), ((1, 1, 1), 2, 3), ((1,), 4, 1)],
)
def test_long_ranges_are_divided_between_the_cores(
    lengths: tuple[int, ...], cores: int, tasks: int
) -> None:
    ranges = [lying(5, 5 + length * OFFSETS_A_TASK) for length in lengths]
    pieces = divided(ranges, cores)
    assert len(pieces) == tasks
    covered = sorted(offset for piece in pieces for offset in (piece.start, piece.end))
    assert {5, *(piece.end for piece in ranges)} <= set(covered)
    assert sum(piece.offsets for piece in pieces) == sum(piece.offsets for piece in ranges)


def test_short_ranges_stay_whole() -> None:
    ranges = [lying(0, 10), lying(0, 10)]
    assert divided(ranges, 8) == ranges
