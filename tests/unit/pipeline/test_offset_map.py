"""Old offsets to new ones and back, over gaps on either side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from breakglass.services.pipeline.restore.offset_map import CommittedRun, OffsetMap
from breakglass.services.pipeline.stored_segments import StoredSegment, stored_segments
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.record import Record, TimestampType
from breakglass.services.topic_backup.topic_writer import TopicWriter

OLD = (0, 1, 4, 5, 9)
RUNS = [CommittedRun(0, 5, 10, 3), CommittedRun(5, 10, 14, 2)]
"""Three records became 10 to 12, a marker took 13, two became 14 and 15."""


@pytest.fixture
def stored(tmp_path: Path) -> list[StoredSegment]:
    with TopicWriter(tmp_path, TopicIdentity("t"), max_segment_bytes=60) as writer:
        for offset in OLD:
            record = Record(offset, TimestampType.CREATE, 0, b"k", b"v")
            writer.partition(0).append(record)
        manifest = writer.commit()
    return stored_segments(LocalFolder(tmp_path / "t"), manifest.partitions[0].segments)


@pytest.mark.parametrize(
    ("old", "new"),
    [(0, 10), (1, 11), (2, 12), (4, 12), (5, 14), (6, 15), (9, 15), (10, 16), (99, 16)],
)
def test_a_group_goes_on_at_the_first_record_from_its_offset_on(
    stored: list[StoredSegment], old: int, new: int
) -> None:
    assert OffsetMap(RUNS, stored).new_of(old) == new


def test_new_offsets_lead_back(stored: list[StoredSegment]) -> None:
    news = np.array([3, 10, 11, 12, 13, 14, 15, 16, 40])
    olds = OffsetMap(RUNS, stored).old_of(news)
    assert olds.tolist() == [-1, 0, 1, 4, -1, 5, 9, -1, -1]


def test_nothing_restored_maps_to_the_beginning(stored: list[StoredSegment]) -> None:
    empty = OffsetMap([], stored)
    assert (empty.start, empty.end, empty.new_of(7)) == (0, 0, 0)


def test_only_what_was_to_be_restored_is_expected(stored: list[StoredSegment]) -> None:
    expected = OffsetMap(RUNS, stored, ((0, 2), (5, 9))).expected(1, 100)
    assert [int(offset) for run in expected for offset in run.offsets] == [1, 5]


def test_a_partition_without_records_ends_where_the_topic_does(
    stored: list[StoredSegment],
) -> None:
    assert OffsetMap((), (), (), 7).new_of(500) == 7
