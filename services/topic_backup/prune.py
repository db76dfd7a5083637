"""Old segments that can go: which they are, and their removal, the oldest first.

The manifest is brought along. The last segment of a partition always stays: it says where the
backup goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from breakglass.services.clock import now_ms
from breakglass.services.errors import UsageError
from breakglass.services.topic_backup import pending
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.layout import records_name, segment_index_name
from breakglass.services.topic_backup.manifest import TopicManifest, read_manifest, write_manifest
from breakglass.services.topic_backup.reindex import write_partition_index
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary


@dataclass(frozen=True, slots=True)
class PruneLimits:
    """What is to be kept."""

    older_than_ms: int | None = None
    """Segments may go all of whose records are older than this long."""
    keep_bytes: int | None = None
    """Of each partition, the newest segments up to so many bytes stay."""


@dataclass(frozen=True, slots=True)
class Prunable:
    """One segment that can go."""

    partition: int
    prefix: str
    first_offset: int | None
    last_offset: int | None
    records: int
    bytes: int
    max_timestamp: int | None


def prunable(folder: Folder, limits: PruneLimits, at_ms: int | None = None) -> tuple[Prunable, ...]:
    """The segments of the topic in *folder* that *limits* let go at *at_ms*, or now; oldest first.

    Raises:
        UsageError: the folder has no manifest, so what it holds is not known.
        MalformedInput, UnsupportedSchema: the manifest cannot be read.
    """
    manifest = _manifest(folder)
    now = now_ms() if at_ms is None else at_ms
    names = set(folder.names())
    return tuple(
        _prunable(part.partition, segment)
        for part in manifest.partitions
        for segment in _old(names, part, limits, now)
    )


def prune(folder: Folder, limits: PruneLimits, at_ms: int | None = None) -> tuple[Prunable, ...]:
    """Remove the segments that `prunable` names; returns them.

    The manifest forgets them first: a run that is killed leaves files that no commit names, never
    a commit whose files are gone.

    Raises:
        AlreadyRunning: a backup writes there.
        UsageError, MalformedInput, UnsupportedSchema: as `prunable`.
        StorageError: a file cannot be written or removed.
    """
    with folder.lock():
        manifest = _manifest(folder)
        if isinstance(folder, LocalFolder):
            pending.take_back(folder, manifest.commit)
        gone = prunable(folder, limits, at_ms)
        names = {one.prefix for one in gone}
        partitions = tuple(_without(part, names) for part in manifest.partitions)
        if gone:
            write_manifest(
                folder, replace(manifest, commit=manifest.commit + 1, partitions=partitions)
            )
        for part in partitions:
            kept = [(one.prefix, one.start_offset) for one in part.segments]
            write_partition_index(folder, part.partition, kept)
        for one in gone:
            folder.remove(segment_index_name(one.prefix))
            folder.remove(records_name(one.prefix))
        folder.sync()
        return gone


def _old(
    names: Collection[str], part: PartitionSummary, limits: PruneLimits, now_ms: int
) -> Sequence[SegmentSummary]:
    """The segments of one partition that may go: a run of them from the oldest on."""
    there = [one for one in part.segments if records_name(one.prefix) in names]
    size = sum(one.records_bytes for one in there)
    for number, segment in enumerate(there):
        last = number == len(there) - 1
        if last or not _may_go(segment, size, limits, now_ms):
            return there[:number]
        size -= segment.records_bytes
    return ()


def _may_go(segment: SegmentSummary, size: int, limits: PruneLimits, now_ms: int) -> bool:
    """Whether any limit lets the oldest segment go; *size* is that of all that are there."""
    if limits.keep_bytes is not None and size > limits.keep_bytes:
        return True
    if limits.older_than_ms is None:
        return False
    newest = segment.max_timestamp
    return newest is not None and newest < now_ms - limits.older_than_ms


def _without(part: PartitionSummary, names: set[str]) -> PartitionSummary:
    return replace(part, segments=tuple(one for one in part.segments if one.prefix not in names))


def _prunable(partition: int, one: SegmentSummary) -> Prunable:
    return Prunable(
        partition,
        one.prefix,
        one.first_offset,
        one.last_offset,
        one.count,
        one.records_bytes,
        one.max_timestamp,
    )


def _manifest(folder: Folder) -> TopicManifest:
    manifest = read_manifest(folder)
    if manifest is None:
        raise UsageError(
            f"{folder.where()} has no manifest, so what can go is not known: back the topic up once"
        )
    return manifest
