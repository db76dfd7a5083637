"""Records of a restored topic that its restore has not put there: before, between, behind its own.

Where a topic is to be the restore's alone there must be none. Only what lies beside its
transactions is read: the records of each are known to lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.errors import ClusterError, TimedOut, UsageError
from services.kafka.wire.deadline import Deadline
from services.kafka.wire.retry import until
from services.kafka.wire.sender import Sender
from services.model import TopicPartition
from services.pipeline.backup_context import BackupRun
from services.pipeline.committed_log import CommittedLog
from services.pipeline.comparison import TopicSides, compare_topic
from services.pipeline.restore.offset_log import read_log
from services.pipeline.restore.offset_map import CommittedRun, OffsetMap
from services.pipeline.restore.state import RestoreState, read_state, source_of
from services.pipeline.restore.task import Spans
from services.pipeline.source import PartitionSource, TopicSource, WantedTopics, read_sources
from services.pipeline.stored_segments import StoredSegment, stored_segments
from services.pipeline.verify import ContentVerified, PartitionVerified, unseen, verify_content
from services.topic_backup.catalog import HeldTopic
from services.topic_backup.held import RestorableTopic, read_held
from services.topic_backup.manifest import read_manifest

DECIDED_SECONDS = 60.0
CHUNK_BYTES = 64 * 1024
"""Of one fetch: most of what is read are a few bytes between two transactions."""

Runs = Mapping[int, Sequence[CommittedRun]]
"""What a restore has put where, by partition."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """Committed records of somebody else in one partition."""

    partition: TopicPartition
    first: int
    """The offset of the first of them."""
    count: int


def foreign_records(
    sender: Sender, read: Callable[[], TopicSource], runs: Runs, *, transactional: bool
) -> list[Foreign]:
    """The records of others in those partitions of the topic that *runs* names, empty ones too.

    *read* gives the topic as it is now. What a restore without transactions has sent twice counts
    as well: nobody can tell it apart.

    Raises:
        TimedOut: a transaction stays open, so it is not known what it holds.
        ClusterError, Unreachable: a partition cannot be read.
    """
    deadline = Deadline.after(DECIDED_SECONDS)
    found = [
        _foreign(sender, one, runs[one.partition.partition], transactional=transactional)
        for one in until(deadline, lambda: _decided(read(), runs))
    ]
    return [one for one in found if one.count]


def told(found: Sequence[Foreign]) -> str:
    """What is wrong and what to do, in one sentence."""
    one = found[0]
    more = f" (and {len(found) - 1:,} more partitions)" if len(found) > 1 else ""
    return (
        f"{one.partition} holds {one.count:,} records of somebody else, the first at offset "
        f"{one.first}{more}: stop whoever writes there and delete the topic, then restore it anew"
    )


def stretches(
    runs: Sequence[CommittedRun], start: int, end: int, *, transactional: bool
) -> Iterator[tuple[int, int]]:
    """The offsets of ``[start, end)`` that none of *runs* holds, where others may have written.

    One single offset behind a transaction is its commit marker's.
    """
    at, behind = start, -1
    for run in sorted(runs, key=lambda one: one.new_offset):
        yield from _stretch(at, min(run.new_offset, end), behind)
        at = max(at, run.new_offset + run.count)
        behind = at if transactional else -1
    yield from _stretch(at, end, behind)


def _stretch(start: int, end: int, behind: int) -> Iterator[tuple[int, int]]:
    if start < end and not (start == behind and end - start == 1):
        yield start, end


def _decided(now: TopicSource, runs: Runs) -> list[PartitionSource]:
    for number in runs:
        if number in now.unread:
            raise ClusterError(
                f"{now.name}-{number} cannot be read ({now.unread[number]}): go on with --resume "
                "later"
            )
    found = [one for one in now.partitions if one.partition.partition in runs]
    for one in found:
        if one.held_back:
            raise TimedOut(
                f"a transaction stays open in {one.partition}, so it is not known whether somebody "
                "else writes there: see `kafka-transactions.sh find-hanging`, then go on with "
                "--resume",
                "a transaction is open",
            )
    return found


def _foreign(
    sender: Sender, source: PartitionSource, runs: Sequence[CommittedRun], *, transactional: bool
) -> Foreign:
    log = CommittedLog(sender, source.leader, source.partition, CHUNK_BYTES)
    first, count = -1, 0
    beside = stretches(runs, source.log_start, source.stable_end, transactional=transactional)
    for start, end in beside:
        for record in log.records(start, end):
            first = record.offset if first < 0 else first
            count += 1
    return Foreign(source.partition, first, count)


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
