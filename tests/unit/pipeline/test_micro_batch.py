"""What of a micro-batch is copied: what follows the last commit, and nothing past its end."""

from __future__ import annotations

import pytest

from services.model import EpochHistory, TopicPartition
from services.pipeline.micro_batch import within
from services.pipeline.resume_point import CopyStretch, stretch
from services.pipeline.source import PartitionSource
from services.topic_backup.summary import Gap, GapReason, PartitionSummary, SegmentSummary

PARTITION = TopicPartition("t", 0)


def wanted(committed: int | None, log_start: int = 0, stable_end: int = 100) -> CopyStretch:
    """What is to be copied after everything before *committed* was."""
    source = PartitionSource(PARTITION, 1, log_start, stable_end, 100, EpochHistory((), 0), 0)
    segments = (SegmentSummary("s", 0, 1, ""),)
    held = PartitionSummary(0, committed, segments) if committed is not None else None
    return stretch(held, source)


@pytest.mark.parametrize(
    ("committed", "copied"),
    [
        pytest.param(20, (20, 30), id="just what follows"),
        pytest.param(25, (25, 30), id="a run has taken the first half"),
        pytest.param(30, (30, 30), id="replayed"),
        pytest.param(40, (40, 40), id="long passed"),
        pytest.param(10, (10, 30), id="the batch before was not committed"),
        pytest.param(None, (0, 30), id="another generation, with nothing yet"),
    ],
)
def test_a_batch_goes_on_where_the_commit_ends(
    committed: int | None, copied: tuple[int, int]
) -> None:
    one = within({PARTITION: (20, 30)}, wanted(committed))
    assert (one.start, one.end) == copied


def test_what_retention_took_stays_named() -> None:
    one = within({PARTITION: (20, 30)}, wanted(15, log_start=20))
    assert (one.start, one.end) == (20, 30)
    assert one.lost == Gap(15, 20, GapReason.LOST)


def test_an_end_that_was_cut_off_is_not_waited_for() -> None:
    one = within({PARTITION: (20, 30)}, wanted(20, stable_end=24))
    assert (one.start, one.end) == (20, 24)


def test_a_partition_that_is_not_in_the_batch_is_left_alone() -> None:
    one = within({TopicPartition("t", 1): (0, 5)}, wanted(20))
    assert one.offsets == 0
