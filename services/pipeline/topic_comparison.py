"""One topic's records against what is stored of them, by tasks that read the leaders' logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.pipeline.backup_context import BackupRun
from services.pipeline.batches.comparing import CompareWork
from services.pipeline.batches.log_range import Ranges, divided, range_of
from services.pipeline.batches.tasks import run_tasks
from services.pipeline.comparing import Differences
from services.pipeline.restore.offset_map import OffsetMap
from services.pipeline.source import PartitionSource
from services.pipeline.stored_segments import StoredSegment
from services.topic_backup.manifest import TopicIdentity


@dataclass(frozen=True, slots=True)
class TopicSides:
    """What is compared: a topic, and what is stored."""

    topic: TopicIdentity
    sources: Mapping[int, PartitionSource]
    stored: Mapping[int, Sequence[StoredSegment]]
    maps: Mapping[int, OffsetMap] | None = None
    """Of a restored topic, whose offsets are others."""
    alone: bool = True
    """Nobody else should have written into a restored topic."""


def compare_topic(run: BackupRun, sides: TopicSides, ranges: Ranges) -> list[Differences]:
    """How the topic's *ranges* differ from what is stored, a finding for each range or task.

    Raises:
        PipelineError, ClusterError, Unreachable, StorageError: one side cannot be read.
    """
    if not ranges:
        return []
    whole = [
        range_of(sides.topic, sides.sources[number], start, end)
        for number, (start, end) in ranges.items()
    ]
    stored = {number: sides.stored[number] for number in ranges}
    work = CompareWork(stored, sides.maps, alone=sides.alone)
    answers = run_tasks(run, divided(whole, run.cores()), sides.topic.cluster_id, work)
    return [Differences.from_json(text) for _, text in answers]
