"""Removes old segments from a backup, oldest first.

The manifest is updated; a folder of Kafka Backup has none, and there the records say how old a
segment is. The last segment of a partition always stays, because it says where the backup
continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from breakglass.services.clock import now_ms
from breakglass.services.errors import Refused, UsageError
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.folder_contents import segment_summary, writers
from breakglass.services.topic_backup.layout import listing, records_name, segment_index_name
from breakglass.services.topic_backup.manifest import TopicManifest, read_manifest, write_manifest
from breakglass.services.topic_backup.notes import take_back
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.segment_index import (
    read_partition_index,
    write_partition_index,
)
from breakglass.services.topic_backup.summary import SegmentSummary
from breakglass.services.topic_backup.verification import has_lost_manifest


@dataclass(frozen=True, slots=True)
class PruneLimits:
    """What to keep."""

    older_than_ms: int | None = None
    """Segments may be removed if all their records are older than this."""
    keep_bytes: int | None = None
    """The newest segments of each partition stay, up to this size in total."""
    before_offset: int | None = None
    """Segments may be removed if all their offsets are lower."""
    keep_segments: int | None = None
    """So many of the newest segments of each partition stay."""


@dataclass(frozen=True, slots=True)
class Prunable:
    """One segment that can be removed."""

    partition: int
    prefix: str
    first_offset: int | None
    last_offset: int | None
    records: int
    bytes: int
    max_timestamp: int | None


def prunable(folder: Folder, limits: PruneLimits, at_ms: int | None = None) -> tuple[Prunable, ...]:
    """The segments in *folder* that *limits* allow to remove at *at_ms* or now; oldest first.

    Without a manifest, the records of each such segment are read. A damaged segment stays with all
    later ones, because its newest record is not known.

    Raises:
        UsageError: the folder has lost its manifest, or has no segments.
        DamagedBackup, UnsupportedSchema, MalformedInput: manifest or index cannot be read.
    """
    manifest = read_manifest(folder)
    now = now_ms() if at_ms is None else at_ms
    found = _committed(folder, manifest) if manifest else _uncommitted(folder)
    return tuple(
        Prunable(
            number,
            segment.prefix,
            segment.first_offset,
            segment.last_offset,
            segment.count,
            segment.records_bytes,
            segment.max_timestamp,
        )
        for number, sizes, summaries in found
        for segment in _old(sizes, summaries, limits, now)
    )


def prune(folder: Folder, limits: PruneLimits) -> tuple[Prunable, ...]:
    """Remove the segments that `prunable` names; return them.

    Manifest and indexes drop them first. A run that is killed thus leaves files that no commit
    names, never a commit whose files are missing.

    Raises:
        AlreadyRunning: a backup is writing to the folder.
        Refused: a process has files of a folder of Kafka Backup open.
        UsageError, DamagedBackup, MalformedInput, UnsupportedSchema: as `prunable`.
        StorageError: a file cannot be written or removed.
    """
    with folder.lock():
        manifest = read_manifest(folder)
        if manifest is not None and isinstance(folder, LocalFolder):
            take_back(folder, manifest.commit)
        gone = prunable(folder, limits)
        if manifest is not None:
            names = {segment.prefix for segment in gone}
            partitions = tuple(
                replace(
                    part, segments=tuple(one for one in part.segments if one.prefix not in names)
                )
                for part in manifest.partitions
            )
            if gone:
                write_manifest(
                    folder, replace(manifest, commit=manifest.commit + 1, partitions=partitions)
                )
            for part in partitions:
                kept = [(segment.prefix, segment.start_offset) for segment in part.segments]
                write_partition_index(folder, part.partition, kept)
        else:
            require_no_writer(folder)
            # Kafka Backup restores from the indexes.
            names = {segment.prefix for segment in gone}
            for number in sorted({segment.partition for segment in gone}):
                entries = read_partition_index(folder, number)
                kept = [one for one in entries if one.prefix not in names]
                write_partition_index(folder, number, kept)
        for one in gone:
            if folder.size(segment_index_name(one.prefix)) is not None:
                folder.remove(segment_index_name(one.prefix))
            folder.remove(records_name(one.prefix))
        folder.sync()
        return gone


def require_no_writer(folder: Folder) -> None:
    """Refuse a folder without manifest while Kafka Backup's connector has files of it open.

    The connector locks nothing, and goes on writing to the index that it opened: what it adds would
    be lost with it.

    Raises Refused: a process has a file open.
    """
    open_there = [] if read_manifest(folder) is not None else writers(folder)
    if open_there:
        raise Refused(f"{folder.where()}: {open_there[0]}: stop the connector, then prune again.")


Candidates = tuple[int, Sequence[int], Iterable[SegmentSummary]]
"""A partition, the size of each of its segments, and their summaries, oldest first."""


def _committed(folder: Folder, manifest: TopicManifest) -> Iterator[Candidates]:
    names = set(folder.names())
    for part in manifest.partitions:
        there = [segment for segment in part.segments if records_name(segment.prefix) in names]
        yield part.partition, [segment.records_bytes for segment in there], there


def _uncommitted(folder: Folder) -> Iterator[Candidates]:
    names = folder.names()
    numbers = listing(names)
    if has_lost_manifest(names) or not folder.original or not numbers:
        raise UsageError(
            f"{folder.where()} has no manifest and is not of Kafka Backup, so what may be deleted "
            "is not known: take it from another copy, or back the topic up once."
        )
    for number in numbers:
        # Read before anything is agreed to: an index that cannot be read cannot be changed.
        read_partition_index(folder, number)
        reader = PartitionReader(folder, number, None)
        sizes = [folder.size(records_name(one.prefix)) or 0 for one in reader.segments]
        yield number, sizes, _undamaged(reader)


def _undamaged(reader: PartitionReader) -> Iterator[SegmentSummary]:
    """A summary of each segment, which reads its records; ends before the first damaged one.

    Records that damage hides may be newer than those that are left.
    """
    for segment in reader.segments:
        summary = segment_summary(reader, segment)
        if reader.damages:
            return
        yield summary


def _old(
    sizes: Sequence[int], summaries: Iterable[SegmentSummary], limits: PruneLimits, now_ms: int
) -> list[SegmentSummary]:
    """The segments of one partition that may be removed: consecutive, from the oldest on."""
    left, gone = sum(sizes), []
    # The last segment always stays, so its summary is not asked for.
    for number, segment in zip(range(len(sizes), 1, -1), summaries, strict=False):
        if not _may_go(segment, left, number, limits, now_ms):
            break
        gone.append(segment)
        left -= sizes[len(gone) - 1]
    return gone


def _may_go(
    segment: SegmentSummary, size: int, number: int, limits: PruneLimits, now_ms: int
) -> bool:
    """Whether a limit allows removing the oldest *segment*.

    *size* and *number* are of it and all later ones.
    """
    if limits.keep_bytes is not None and size > limits.keep_bytes:
        return True
    if limits.keep_segments is not None and number > limits.keep_segments:
        return True
    if segment.count == 0:
        return limits.older_than_ms is not None or limits.before_offset is not None
    newest, last, oldest = segment.max_timestamp, segment.last_offset, limits.older_than_ms
    old = oldest is not None and newest is not None and newest < now_ms - oldest
    below = limits.before_offset is not None and last is not None and last < limits.before_offset
    return old or below
