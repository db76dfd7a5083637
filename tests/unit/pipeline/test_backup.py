"""Whether files that nothing vouches for are of the topic's log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.pipeline.backup import other_records
from breakglass.services.pipeline.source import PartitionSource
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.record import Record
from tests.unit.topic_backup.backups import back_up, manifest_of
from tests.unit.topic_backup.shapes import plain, run

LOG = {record.offset: record for record in run(0, 30)}
LAST = 19


def other(offset: int) -> dict[int, Record]:
    """The log with another record at *offset*."""
    return {**LOG, offset: plain(offset, b"of another log")}


def without(*offsets: int) -> dict[int, Record]:
    return {offset: record for offset, record in LOG.items() if offset not in offsets}


@pytest.mark.parametrize(
    ("log", "start", "compacted", "is_other"),
    [
        (LOG, 0, False, False),
        (LOG, 10, False, False),
        (other(0), 0, False, True),
        (other(LAST), 0, False, True),
        (other(0), 1, False, False),
        (without(0), 0, False, True),
        (without(0), 0, True, False),
        (without(0, LAST), 0, True, True),
        (other(LAST), 0, True, True),
        (LOG, 20, False, True),
    ],
)
def test_b28_files_are_continued_only_by_a_log_that_has_their_records(
    tmp_path: Path, log: dict[int, Record], start: int, compacted: bool, is_other: bool
) -> None:
    topic = back_up(tmp_path, run(0, LAST + 1), max_segment_bytes=200)
    (held,) = manifest_of(topic).partitions
    now = PartitionSource(TopicPartition("orders", 0), 1, start, 30, 30, Unknown("not asked"), None)
    found = other_records(LocalFolder(topic), held, now, log.get, compacted=compacted)
    assert bool(found) == is_other
    assert not other_records(
        LocalFolder(topic), replace(held, segments=()), now, log.get, compacted=compacted
    )
