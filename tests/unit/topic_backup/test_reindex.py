"""Indexes made anew from records (the golden directories are in test_golden)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from breakglass.services.errors import UnsupportedSchema
from breakglass.services.topic_backup import partition_index
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.reindex import reindex
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION
from tests.unit.topic_backup.backups import (
    INDEX,
    RECORDS,
    append_to,
    as_the_originals,
    back_up,
    overwrite,
    read,
    segments,
)
from tests.unit.topic_backup.shapes import plain, run

SIZE = len(encode(plain(0)))


def originals(root: Path) -> Path:
    return as_the_originals(back_up(root, run(0, 5)))


def test_a_whole_record_that_was_not_indexed_is_taken_in(tmp_path: Path) -> None:
    topic = originals(tmp_path)
    append_to(topic / RECORDS, encode(plain(5)) + encode(plain(6))[:12])
    (rebuilt,) = reindex(LocalFolder(topic), 0)
    assert (rebuilt.entries, rebuilt.left_out, rebuilt.torn) == (6, 12, True)
    assert read(topic) == run(0, 6)


def test_a_damaged_segment_keeps_its_index_and_is_told(tmp_path: Path) -> None:
    topic = originals(tmp_path)
    overwrite(topic / RECORDS, FIRST_POSITION + 2 * SIZE + 8, struct.pack(">i", 9))
    index = (topic / INDEX).read_bytes()
    (rebuilt,) = reindex(LocalFolder(topic), 0)
    assert (rebuilt.entries, rebuilt.left_out, rebuilt.torn) == (2, 3 * SIZE, False)
    assert rebuilt.damage == "a timestamp type cannot be 9"
    assert (topic / INDEX).read_bytes() == index
    assert read(topic) == [*run(0, 2), *run(3, 5)]


def test_after_old_segments_were_deleted_the_partition_index_names_the_rest(
    tmp_path: Path,
) -> None:
    topic = as_the_originals(back_up(tmp_path, run(0, 12), max_segment_bytes=4 * SIZE))
    first, second, third = segments(topic)
    for path in topic.glob(f"{first}_*"):
        path.unlink()
    reindex(LocalFolder(topic), 0)
    entries = partition_index.read(LocalFolder(topic), 0)
    assert entries == ((second, 4), (third, 8))


def test_segments_are_indexed_in_numeric_order(tmp_path: Path) -> None:
    """The original sorts names as text, and fails where 10^10 comes before 9999999999."""
    records = run(10**10 - 2, 10**10 + 1)
    topic = as_the_originals(back_up(tmp_path, records, max_segment_bytes=1))
    reindex(LocalFolder(topic), 0)
    entries = partition_index.read(LocalFolder(topic), 0)
    assert [entry.start_offset for entry in entries] == [0, 10**10 - 1, 10**10]


def test_another_version_is_refused_and_its_index_left_alone(tmp_path: Path) -> None:
    topic = originals(tmp_path)
    before = (topic / INDEX).read_bytes()
    overwrite(topic / RECORDS, 0, b"\x07")
    with pytest.raises(UnsupportedSchema):
        reindex(LocalFolder(topic), 0)
    assert (topic / INDEX).read_bytes() == before
