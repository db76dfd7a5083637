"""Which partitions of a backup are restored, and which of their stored offsets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from services.errors import UsageError
from services.pipeline.restore.options import RestoreOptions
from services.pipeline.restore.task import Spans
from services.pipeline.stored_segments import StoredSegment, runs_between
from services.topic_backup.held import RestorableTopic
from services.topic_backup.summary import PartitionSummary


def chosen_partitions(held: RestorableTopic, options: RestoreOptions) -> list[PartitionSummary]:
    """Those that are restored. Raises UsageError where one is named that is not there."""
    there = {one.partition for one in held.partitions}
    absent = sorted(set(options.partitions) - there)
    if absent:
        raise UsageError(
            f"{held.folder.where()} holds nothing of partition {absent[0]}: it holds "
            f"{', '.join(map(str, sorted(there)))}."
        )
    wanted = options.partitions or there
    return [part for part in held.partitions if part.partition in wanted]


def chosen_spans(
    stored: Sequence[StoredSegment], part: PartitionSummary, options: RestoreOptions
) -> Spans:
    """The stored offsets of one partition that are restored; none where it holds no records."""
    end = part.next_offset or 0
    if options.until_offset is not None:
        end = min(end, options.until_offset)
    if options.until_ms is not None:
        end = min(end, _first_later(stored, part, options.until_ms))
    start = min((one.first_offset for one in stored), default=0)
    return ((start, end),) if start < end else ()


def _first_later(stored: Sequence[StoredSegment], part: PartitionSummary, until_ms: int) -> int:
    """The offset of the first record with a timestamp after *until_ms*; the end without one."""
    newest = {one.prefix: one.max_timestamp for one in part.segments}
    for segment in stored:
        latest = newest.get(segment.prefix)
        if latest is None or latest <= until_ms:
            continue
        for run in runs_between([segment], segment.first_offset, segment.last_offset + 1):
            places = run.bounds[:-1, None] + np.arange(20)
            heads = run.data[places]
            kinds = heads[:, 8:12].copy().view(">i4")[:, 0]
            stamps = heads[:, 12:20].copy().view(">i8")[:, 0]
            late = np.flatnonzero((kinds >= 0) & (stamps > until_ms))
            if len(late):
                return int(run.offsets[late[0]])
    return part.next_offset or 0
