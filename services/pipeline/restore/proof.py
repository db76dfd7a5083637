"""Every restored record against the backup, by the map of offsets: what was declared is equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from services.errors import ClusterError, UsageError
from services.kafka.wire.deadline import Deadline
from services.pipeline.backup_context import BackupRun
from services.pipeline.restore.offset_log import read_log
from services.pipeline.restore.offset_map import CommittedRun, OffsetMap
from services.pipeline.restore.resuming import source_of
from services.pipeline.restore.state import RestoreState, read_state
from services.pipeline.restore.task import Spans
from services.pipeline.source import TopicSource, WantedTopics, read_sources
from services.pipeline.stored_segments import StoredSegment, stored_segments
from services.pipeline.topic_comparison import TopicSides, compare_topic
from services.pipeline.verify import ContentVerified, PartitionVerified, unseen, verify_content
from services.topic_backup.catalog import HeldTopic
from services.topic_backup.held import RestorableTopic, read_held
from services.topic_backup.manifest import read_manifest

ASK_SECONDS = 60.0


def prove(
    run: BackupRun,
    now: TopicSource,
    spans: Mapping[int, Spans],
    maps: Mapping[int, OffsetMap],
    *,
    alone: bool,
) -> list[PartitionVerified]:
    """Compare the restored *spans* of each partition; *alone* where others had no business there.

    What the topic's retention has removed since is counted apart.

    Raises:
        PipelineError, ClusterError, Unreachable, StorageError: one side cannot be read.
    """
    for number, reason in now.unread.items():
        raise ClusterError(f"{now.name}-{number} cannot be read ({reason}): try again later")
    sources = {one.partition.partition: one for one in now.partitions}
    begun = {number: max(maps[number].start, sources[number].log_start) for number in spans}
    ranges = {
        number: (start, maps[number].end)
        for number, start in begun.items()
        if start < maps[number].end
    }
    stored = {number: maps[number].stored for number in spans}
    found = compare_topic(run, TopicSides(now.identity, sources, stored, maps, alone=alone), ranges)
    parts = []
    for number, held in spans.items():
        part = PartitionVerified(number, begun[number], maps[number].end)
        own = [one for one in found if one.partition == number]
        for one in own:
            part.add(one)
        first = maps[number].old_from(begun[number])
        part.expired = sum(len(one.offsets) for one in maps[number].expected(0, first))
        for start, end in held:
            part.add(unseen(stored[number], own, number, max(start, first), end))
        parts.append(part)
    return parts


def restored_maps(
    state: RestoreState, segments: Mapping[int, Sequence[StoredSegment]]
) -> dict[int, OffsetMap]:
    """The way from old to new offsets of each partition that *state* knows records of."""
    logs = {number: read_log(state.log_of(number)).runs for number in state.spans}
    return {
        number: OffsetMap(runs, segments.get(number, ()), state.spans[number])
        for number, runs in logs.items()
        if runs
    }


def declared_in(runs: Iterable[CommittedRun]) -> dict[str, int]:
    """Records of *runs* that could not be kept as they were, by what is different."""
    found: dict[str, int] = {}
    for run in runs:
        for what, count in run.declared.items():
            found[what] = found.get(what, 0) + count
    return found


def verify_restored(
    run: BackupRun, now: TopicSource, held: RestorableTopic, state: RestoreState
) -> ContentVerified:
    """Compare a topic with the backup that it was restored from, by what the restore left.

    Raises: as `prove`.
    """
    segments = {
        one.partition: stored_segments(held.folder, one.segments) for one in held.partitions
    }
    maps = restored_maps(state, segments)
    run.meter.total = sum(one.end - one.start for one in maps.values())
    spans = {number: state.spans[number] for number in maps}
    found = ContentVerified(held.identity.topic, now.name, now.compacted)
    found.partitions = prove(run, now, spans, maps, alone=state.alone)
    found.declared = declared_in(each for one in maps.values() for each in one.runs)
    found.seconds = run.meter.seconds
    return found


def verify_against(
    run: BackupRun, held: HeldTopic, topic: str, state_root: Path
) -> ContentVerified:
    """Compare *held* with *topic*, which may be restored from it: then by the map of offsets.

    *state_root* is where restores into the cluster keep their state.

    Raises:
        UsageError: the topic does not exist, or what the backup covers is not known.
        PipelineError, ClusterError, Unreachable, StorageError: one side cannot be read.
    """
    state = read_state(state_root / topic)
    if state is not None and state.source == source_of(held):
        (now,) = read_sources(run.client, WantedTopics((topic,)), Deadline.after(ASK_SECONDS))
        if str(now.identity.topic_id) == state.topic_id:
            return verify_restored(run, now, read_held(held.folder, held.topic), state)
    manifest = read_manifest(held.folder)
    if manifest is None:
        raise UsageError(
            f"{held.where} has no manifest, so what it covers is not known: restore it and "
            "compare the topics instead."
        )
    return verify_content(run, held.folder, manifest, topic)
