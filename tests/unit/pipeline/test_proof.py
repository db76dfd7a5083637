"""Which offsets of a restored topic others may have written: all but ours and commit markers."""

from __future__ import annotations

import pytest

from breakglass.services.pipeline.restore.offset_map import CommittedRun
from breakglass.services.pipeline.restore.proof import unowned_spans

RUNS = [CommittedRun(0, 3, 0, 3), CommittedRun(3, 5, 4, 2)]
"""Offsets 0 to 2 and 4 to 5; the markers are at 3 and 6."""
SHIFTED = [CommittedRun(0, 3, 2, 3), CommittedRun(3, 5, 9, 2)]
"""Offsets 2 to 4 and 9 to 10."""


@pytest.mark.parametrize(
    ("runs", "start", "end", "expected"),
    [
        ([], 0, 0, []),
        ([], 5, 5, []),
        ([], 0, 4, [(0, 4)]),
        (RUNS, 0, 7, []),
        (RUNS, 0, 8, [(6, 8)]),
        (SHIFTED, 0, 12, [(0, 2), (5, 9)]),
        (SHIFTED, 6, 12, [(6, 9)]),
        (list(reversed(SHIFTED)), 0, 12, [(0, 2), (5, 9)]),
    ],
)
def test_one_offset_behind_a_transaction_is_its_marker(
    runs: list[CommittedRun], start: int, end: int, expected: list[tuple[int, int]]
) -> None:
    assert list(unowned_spans(runs, start, end, transactional=True)) == expected


def test_without_transactions_there_are_no_markers() -> None:
    assert list(unowned_spans(RUNS, 0, 7, transactional=False)) == [(3, 4), (6, 7)]


def test_one_offset_before_the_first_record_is_no_marker() -> None:
    assert list(unowned_spans([CommittedRun(0, 3, 1, 3)], 0, 5, transactional=True)) == [(0, 1)]
