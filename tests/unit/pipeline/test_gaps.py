"""From parts to segments: holes, gaps, epochs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from breakglass.services.model import EpochHistory, EpochRange
from breakglass.services.pipeline.gaps import epoch_starts, holes, merged_gaps, new_segments
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.part import SegmentPart
from breakglass.services.topic_backup.summary import EpochStart, Gap, GapReason

CONTROL, ABORTED = GapReason.CONTROL, GapReason.ABORTED


def part(folder: Path, *offsets: int) -> SegmentPart:
    """A part of records with these *offsets*, whose index is in *folder*."""
    name = f"index-{offsets[0]}"
    entries = np.array([[offset, 1, 1] for offset in offsets], ">i8")
    (folder / name).write_bytes(b"\x01" + entries.tobytes())
    return SegmentPart(0, "r", name, len(offsets), offsets[0], offsets[-1], 0, 0, 0, 1, "")


def test_holes_before_in_between_and_behind(tmp_path: Path) -> None:
    parts = [part(tmp_path, 2, 3, 7), part(tmp_path, 9, 10)]
    assert list(holes(LocalFolder(tmp_path), parts, 0, 13)) == [(0, 2), (4, 7), (8, 9), (11, 13)]


def test_a_stretch_without_records_is_one_hole(tmp_path: Path) -> None:
    assert list(holes(LocalFolder(tmp_path), [], 4, 9)) == [(4, 9)]
    assert list(holes(LocalFolder(tmp_path), [], 4, 4)) == []


def test_a_gap_belongs_to_the_segment_before_whose_last_record_it_begins(tmp_path: Path) -> None:
    parts = [part(tmp_path, 2, 3, 7), part(tmp_path, 9, 10)]
    gaps = [Gap(0, 2, CONTROL), Gap(4, 7, ABORTED), Gap(8, 9, CONTROL), Gap(11, 13, CONTROL)]
    segments, behind = new_segments(parts, gaps, EpochHistory((), 0))
    assert [segment.before.counts for segment in segments] == [
        {"control": 2, "aborted": 3},
        {"control": 1},
    ]
    assert behind.counts == {"control": 2}


def test_gaps_of_one_reason_that_touch_are_one() -> None:
    gaps = [Gap(0, 2, CONTROL), Gap(2, 3, CONTROL), Gap(3, 4, ABORTED), Gap(6, 7, ABORTED)]
    assert list(merged_gaps(gaps)) == [Gap(0, 3, CONTROL), Gap(3, 4, ABORTED), Gap(6, 7, ABORTED)]


def test_epochs_begin_with_the_first_record(tmp_path: Path) -> None:
    history = EpochHistory((EpochRange(0, 0, 5), EpochRange(4, 5, 9), EpochRange(6, 9, 20)), 0)
    found = epoch_starts(part(tmp_path, 3, 8), history)
    assert found == (EpochStart(0, 3), EpochStart(4, 5))
