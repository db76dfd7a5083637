"""Whether files that nothing vouches for are of the topic's log."""

from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.model import EpochHistory, EpochRange, TopicPartition, Unknown
from breakglass.services.pipeline.backup import (
    NOT_IN_TOPIC,
    TAIL,
    left_unproved,
    other_records,
    to_compare,
)
from breakglass.services.pipeline.source import PartitionSource
from breakglass.services.pipeline.stored_segments import stored_segments
from breakglass.services.pipeline.verify import PartitionVerified, StretchComparison, unseen
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.summary import UNVOUCHED, Gap, GapReason, Unproved
from tests.unit.pipeline.chunks import chunk_of
from tests.unit.topic_backup.backups import back_up, manifest_of
from tests.unit.topic_backup.shapes import plain, run

LOG = {record.offset: record for record in run(0, 30)}
HELD = [record for record in run(0, 20) if record.offset != 12]
ALL, REST = (Unproved(0, 20, UNVOUCHED),), (Unproved(0, 8, UNVOUCHED),)
GONE = (Unproved(4, 6, NOT_IN_TOPIC),)
LOST, HOLE = (Gap(12, 13, reason) for reason in (GapReason.LOST, GapReason.UNKNOWN))


def log(start: int, end: int = 30) -> PartitionSource:
    epochs = EpochHistory((EpochRange(3, start, end),), start)
    return PartitionSource(TopicPartition("orders", 0), 1, start, end, end, epochs, None)


def having(*others: Record, without: range = range(0)) -> dict[int, Record]:
    """The log with *others* in place of its own, and without some."""
    some = {offset: one for offset, one in LOG.items() if offset not in without}
    return some | {one.offset: one for one in others}


@pytest.mark.parametrize(
    ("records", "start", "gap", "is_other", "left"),
    [
        pytest.param(LOG, 0, LOST, False, (), id="every one is equal"),
        pytest.param(LOG, 0, HOLE, True, (), id="one that the files lack"),
        pytest.param(having(plain(7, b"o")), 0, LOST, True, (), id="another one in the middle"),
        pytest.param(having(plain(7, b"o")), 8, LOST, False, REST, id="in the rest"),
        pytest.param(having(without=range(4, 6)), 0, LOST, False, GONE, id="some"),
        pytest.param(having(without=range(20)), 0, LOST, True, (), id="none of them"),
    ],
)
def test_b28_files_are_continued_only_by_a_log_that_has_their_records(
    tmp_path: Path,
    records: dict[int, Record],
    start: int,
    gap: Gap,
    is_other: bool,
    left: tuple[Unproved, ...],
) -> None:
    topic = back_up(tmp_path, HELD, max_segment_bytes=200)
    (held,) = manifest_of(topic).partitions
    segments = tuple(replace(one, gaps=(gap,) if one.gaps else ()) for one in held.segments)
    held = replace(held, segments=segments, unproved=ALL)
    span = to_compare(held, log(start), vouched=False)
    assert span == (start, 20)
    stored = stored_segments(LocalFolder(topic), held.segments)
    comparison, part = StretchComparison(0, stored), PartitionVerified(0, *span)
    comparison.take(chunk_of([one for at, one in sorted(records.items()) if start <= at < 20]))
    for found in (comparison.found, unseen(stored, [comparison.found], 0, *span)):
        part.add(found)
    assert bool(other_records(held, part)) == is_other
    assert is_other or left_unproved(ALL, part) == left


def test_b28_what_nothing_vouches_for_and_an_end_without_a_leader_epoch_are_compared(
    tmp_path: Path,
) -> None:
    (held,) = manifest_of(back_up(tmp_path, HELD)).partitions
    known = replace(held, end_epoch=3)
    assert to_compare(known, log(0), vouched=True) is None
    assert to_compare(known, log(0), vouched=False) == (0, 20), "epochs begin at 0 in every topic"
    assert to_compare(held, log(0), vouched=True) == (0, 20)
    assert to_compare(known, replace(log(0), epochs=Unknown("hidden")), vouched=True) == (0, 20)
    assert to_compare(held, log(20), vouched=False) is None, "the log has none of them"
    (one,) = held.segments
    long = replace(held, next_offset=3 * TAIL, unproved=(Unproved(5, 8, UNVOUCHED),))
    long = replace(long, segments=(replace(one, last_offset=3 * TAIL - 5),))
    assert to_compare(replace(long, end_epoch=3), log(0, 3 * TAIL), vouched=True) == (5, 8)
    found = to_compare(replace(long, unproved=()), log(0, 4 * TAIL), vouched=True)
    assert found == (2 * TAIL - 4, 3 * TAIL)
