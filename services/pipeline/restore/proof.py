"""Proves a restore: compares every restored record with the backup, and finds foreign records.

Foreign records are records of other writers. A topic that only the restore may write must have
none. The search reads only between the transactions of the restore, whose records are adjacent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from breakglass.services import patience
from breakglass.services.errors import ClusterError, TimedOut, UsageError
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.backup_context import BackupRun
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.pipeline.restore.offset_map import CommittedRun, OffsetMap, read_log
from breakglass.services.pipeline.restore.state import RestoreState, read_state, source_of
from breakglass.services.pipeline.restore.task import Spans
from breakglass.services.pipeline.source import (
    PartitionSource,
    TopicSource,
    WantedTopics,
    read_sources,
)
from breakglass.services.pipeline.stored_segments import StoredSegment, stored_segments
from breakglass.services.pipeline.verify import (
    ContentVerified,
    PartitionVerified,
    TopicSides,
    compare_topic,
    unseen,
    verify_content,
)
from breakglass.services.topic_backup.catalog import HeldTopic
from breakglass.services.topic_backup.folder_contents import RestorableTopic, read_held
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.summary import added

CHUNK_BYTES = 64 * 1024
"""The size of a fetch: most reads are of a few bytes between two transactions."""

Runs = Mapping[int, Sequence[CommittedRun]]
"""The restored runs by partition."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """Committed records of other writers in one partition."""

    partition: TopicPartition
    first: int
    """The offset of the first foreign record."""
    count: int


def foreign_records(
    sender: Sender, read: Callable[[], TopicSource], runs: Runs, *, transactional: bool
) -> list[Foreign]:
    """The foreign records in the partitions of *runs*, also in partitions without runs.

    *read* returns the topic as it is now. Records that a restore without transactions sent twice
    count as foreign, because they cannot be distinguished.

    Raises:
        TimedOut: a transaction stays open, so its records are unknown.
        ClusterError, Unreachable: a partition cannot be read.
    """
    deadline = Deadline.after(patience.JOB)
    found = [
        _foreign(sender, source, runs[source.partition.partition], transactional=transactional)
        for source in until(deadline, lambda: _decided(read(), runs))
    ]
    return [foreign for foreign in found if foreign.count]


def foreign_text(found: Sequence[Foreign]) -> str:
    """The error for foreign records, and what to do."""
    first = found[0]
    more = f" (and {len(found) - 1:,} more partitions)" if len(found) > 1 else ""
    return (
        f"{first.partition} has {first.count:,} records of another writer, the first at offset "
        f"{first.first}{more}: stop that writer and delete the topic, then restore it again"
    )


def unowned_spans(
    runs: Sequence[CommittedRun], start: int, end: int, *, transactional: bool
) -> Iterator[tuple[int, int]]:
    """The offsets of ``[start, end)`` outside *runs*, where other writers may have written.

    A single offset after a transaction is its commit marker.
    """
    at, behind = start, -1
    for run in sorted(runs, key=lambda run: run.new_offset):
        yield from _unowned(at, min(run.new_offset, end), behind)
        at = max(at, run.new_offset + run.count)
        behind = at if transactional else -1
    yield from _unowned(at, end, behind)


def _unowned(start: int, end: int, behind: int) -> Iterator[tuple[int, int]]:
    if start < end and not (start == behind and end - start == 1):
        yield start, end


def _decided(now: TopicSource, runs: Runs) -> list[PartitionSource]:
    for number in runs:
        if number in now.unread:
            raise ClusterError(
                f"{now.name}-{number} cannot be read ({now.unread[number]}): run again with "
                "--resume later"
            )
    found = [source for source in now.partitions if source.partition.partition in runs]
    for source in found:
        if source.held_back:
            raise TimedOut(
                f"a transaction stays open in {source.partition}, which may be of another "
                "writer: see `kafka-transactions.sh find-hanging`, then run again with --resume",
                "a transaction is open",
            )
    return found


def _foreign(
    sender: Sender, source: PartitionSource, runs: Sequence[CommittedRun], *, transactional: bool
) -> Foreign:
    log = CommittedLog(sender, source.leader, source.partition, CHUNK_BYTES)
    first, count = -1, 0
    beside = unowned_spans(runs, source.log_start, source.stable_end, transactional=transactional)
    for start, end in beside:
        for record in log.records(start, end):
            first = record.offset if first < 0 else first
            count += 1
    return Foreign(source.partition, first, count)


def seen_to(read: Callable[[], TopicSource], ends: Mapping[int, int]) -> TopicSource:
    """The topic of *read*, once committed reads reach *ends*, offsets by partition.

    Raises:
        TimedOut: they do not, because a transaction of another writer stays open.
        ClusterError, Unreachable: the topic cannot be read.
    """

    def reached() -> TopicSource:
        now = read()
        for source in now.partitions:
            if source.stable_end < ends.get(source.partition.partition, 0):
                raise TimedOut(
                    f"what was restored into {source.partition} cannot be compared yet: committed "
                    f"reads stop at offset {source.stable_end:,}, where a transaction of another "
                    "writer is open: see breakglass after transactions list, then run again with "
                    "--resume",
                    "a transaction is open",
                )
        return now

    return until(Deadline.after(patience.JOB), reached)


def prove(
    run: BackupRun,
    now: TopicSource,
    spans: Mapping[int, Spans],
    maps: Mapping[int, OffsetMap],
    *,
    alone: bool,
) -> list[PartitionVerified]:
    """Compare the restored *spans* of each partition; *alone* if the restore is the only writer.

    Records that retention has removed since are counted as expired.

    Raises PipelineError, ClusterError, Unreachable, StorageError: one side cannot be read.
    """
    for number in spans:
        if number in now.unread:
            reason = now.unread[number]
            raise ClusterError(f"{now.name}-{number} cannot be read ({reason}): try again later")
    sources = {source.partition.partition: source for source in now.partitions}
    begun = {number: max(maps[number].start, sources[number].log_start) for number in spans}
    ranges = {
        number: (start, maps[number].end)
        for number, start in begun.items()
        if start < maps[number].end
    }
    stored = {number: maps[number].stored for number in spans}
    found = compare_topic(run, TopicSides(now.identity, sources, stored, maps, alone=alone), ranges)
    parts = []
    for number, own_spans in spans.items():
        part = PartitionVerified(number, begun[number], maps[number].end)
        own = [stretch for stretch in found if stretch.partition == number]
        for stretch in own:
            part.add(stretch)
        first = maps[number].old_from(begun[number])
        part.expired = sum(len(run.offsets) for run in maps[number].expected(0, first))
        for start, end in own_spans:
            part.add(unseen(stored[number], own, number, max(start, first), end))
        parts.append(part)
    return parts


def restored_maps(
    state: RestoreState, segments: Mapping[int, Sequence[StoredSegment]]
) -> dict[int, OffsetMap]:
    """The offset map of each partition with restored records, by *state* and its logs."""
    logs = {number: read_log(state.log_of(number)).runs for number in state.spans}
    return {
        number: OffsetMap(runs, segments.get(number, ()), state.spans[number])
        for number, runs in logs.items()
        if runs
    }


def declared_in(runs: Iterable[CommittedRun]) -> dict[str, int]:
    """Records of *runs* that could not be kept exactly, by the difference."""
    return added(*(run.declared for run in runs))


def verify_restored(
    run: BackupRun, now: TopicSource, held: RestorableTopic, state: RestoreState
) -> ContentVerified:
    """Compare a topic with the backup that it was restored from, by the logs of the restore.

    Raises: as `prove`.
    """
    segments = {
        partition.partition: stored_segments(held.folder, partition.segments)
        for partition in held.partitions
    }
    maps = restored_maps(state, segments)
    run.meter.total = sum(offset_map.end - offset_map.start for offset_map in maps.values())
    spans = {number: state.spans[number] for number in maps}
    found = ContentVerified(held.identity.topic, now.name, now.compacted)
    found.partitions = prove(run, now, spans, maps, alone=state.alone)
    found.declared = declared_in(run for offset_map in maps.values() for run in offset_map.runs)
    found.seconds = run.meter.seconds
    return found


def verify_against(
    run: BackupRun, held: HeldTopic, topic: str, state_root: Path
) -> ContentVerified:
    """Compare *held* with *topic*; if it was restored from *held*, by the map of offsets.

    *state_root* has the state of restores into the cluster.

    Raises:
        UsageError: the topic does not exist, or the offsets of the backup are unknown.
        PipelineError, ClusterError, Unreachable, StorageError: one side cannot be read.
    """
    state = read_state(state_root / topic)
    if state is not None and state.source == source_of(held):
        (now,) = read_sources(run.client, WantedTopics((topic,)), Deadline.after(patience.JOB))
        if str(now.identity.topic_id) == state.topic_id:
            return verify_restored(run, now, read_held(held.folder, held.topic), state)
    manifest = read_manifest(held.folder)
    if manifest is None:
        raise UsageError(
            f"{held.where} has no manifest, so its offsets are unknown: restore it and "
            "compare the topics instead."
        )
    return verify_content(run, held.folder, manifest, topic)
