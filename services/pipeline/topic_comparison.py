"""One topic's records against what is stored of them: by record batches, else by rows.

Rows of Spark's connector are for what record batches are not read for: logs in older message
formats, and brokers that serve no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from services.errors import OlderMessageFormat, UnsupportedByCluster
from services.pipeline.batches.comparing import CompareWork
from services.pipeline.batches.log_range import divided, range_of
from services.pipeline.batches.tasks import run_tasks
from services.pipeline.committed_log import CommittedLog
from services.pipeline.comparing import FOUND, Comparison, Differences, compare
from services.pipeline.exact import exact_chunks
from services.pipeline.reading import Ranges, TimestampTooWide, TopicReader
from services.pipeline.restore.offset_map import OffsetMap
from services.pipeline.running import Run
from services.pipeline.source import PartitionSource
from services.pipeline.stored import StoredSegment
from services.topic_backup.manifest import TopicIdentity


@dataclass(frozen=True, slots=True)
class Sides:
    """What is compared: a topic, and what is stored."""

    topic: TopicIdentity
    sources: Mapping[int, PartitionSource]
    stored: Mapping[int, Sequence[StoredSegment]]
    maps: Mapping[int, OffsetMap] | None = None
    """Of a restored topic, whose offsets are others."""
    alone: bool = True
    """Nobody else should have written into a restored topic."""


def compare_topic(run: Run, sides: Sides, ranges: Ranges) -> list[Differences]:
    """How the topic's *ranges* differ from what is stored, a finding for each range or task.

    Raises:
        PipelineError, ClusterError, Unreachable, StorageError: one side cannot be read.
    """
    if not ranges:
        return []
    # Only Kafka's own clients read what was written, or is served, before 2.3.
    with suppress(OlderMessageFormat, UnsupportedByCluster):
        return _by_batches(run, sides, ranges)
    return _by_rows(run, sides, ranges)


def _by_batches(run: Run, sides: Sides, ranges: Ranges) -> list[Differences]:
    """By tasks that read batches from the leaders."""
    whole = [
        range_of(sides.topic, sides.sources[number], start, end)
        for number, (start, end) in ranges.items()
    ]
    stored = {number: sides.stored[number] for number in ranges}
    work = CompareWork(stored, sides.maps, alone=sides.alone)
    answers = run_tasks(run, divided(whole, run.cores()), sides.topic.cluster_id, work)
    return [Differences.from_json(text) for _, text in answers]


def _by_rows(run: Run, sides: Sides, ranges: Ranges) -> list[Differences]:
    """By Spark's connector; a partition with a timestamp that Spark cannot hold, without (B1)."""
    if not ranges:
        return []
    reader = TopicReader(run.session(), run.jvm_connection(), sides.topic.topic)
    stored = {number: sides.stored[number] for number in ranges}
    work = partial(compare, stored=stored, maps=sides.maps, alone=sides.alone)
    try:
        answers = reader.run(ranges, work, FOUND)
    except TimestampTooWide as error:
        wide = error.partition if error.partition in ranges else next(iter(ranges))
    else:
        return [Differences.from_json(one) for one in answers]
    assert wide is not None
    others = {number: span for number, span in ranges.items() if number != wide}
    return [_exactly(run, sides, wide, *ranges[wide]), *_by_rows(run, sides, others)]


def _exactly(run: Run, sides: Sides, number: int, start: int, end: int) -> Differences:
    source = sides.sources[number]
    log = CommittedLog(run.client.sender, source.leader, source.partition)
    offsets = sides.maps.get(number) if sides.maps else None
    comparison = Comparison(number, sides.stored[number], offsets, alone=sides.alone)
    for chunk in exact_chunks(log, start, end):
        comparison.take(chunk)
    return comparison.found
