"""The backup of one topic while tasks elsewhere write its segments: put in place, committed.

Tasks write parts beside the others (`topic_backup.part`). Here they get their names, indexes
learn of them, and the manifest comes last. Nothing of a part is read or copied.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from breakglass.services.topic_backup import partition_index, pending
from breakglass.services.topic_backup.addition import Addition, NewSegment, extended, placed
from breakglass.services.topic_backup.layout import (
    PartitionFiles,
    partition_index_name,
    records_name,
    segment_index_name,
    segment_prefix,
)
from breakglass.services.topic_backup.manifest import (
    TopicIdentity,
    TopicManifest,
    next_commit,
    next_manifest,
    says_more,
    write_manifest,
)
from breakglass.services.topic_backup.partition_writer import MAX_SEGMENT_BYTES
from breakglass.services.topic_backup.reindex import write_partition_index
from breakglass.services.topic_backup.resume import oldest_missing, resume
from breakglass.services.topic_backup.segment_reader import MAGIC
from breakglass.services.topic_backup.small_segment import appended, fits
from breakglass.services.topic_backup.summary import (
    PartitionSummary,
    SegmentSummary,
)
from breakglass.services.topic_backup.topic_claim import claim


class TopicAssembler:
    """Assembles the folder of one topic, alone: the folder is locked until `close`."""

    def __init__(
        self,
        path: Path,
        identity: TopicIdentity,
        *,
        max_segment_bytes: int = MAX_SEGMENT_BYTES,
    ) -> None:
        """Open or create the folder at *path*.

        Raises:
            UsageError: the folder is of another topic, or of this one before it was deleted and
                created again.
            WrongCluster: the folder is of another cluster.
            AlreadyRunning: another process writes there.
            MalformedInput, UnsupportedSchema: the folder's manifest cannot be read.
            StorageError: the folder cannot be written.
        """
        self._max_segment_bytes = max_segment_bytes
        with ExitStack() as stack:
            claimed = stack.enter_context(claim(path, identity))
            self.folder, self.committed = claimed.folder, claimed.committed
            self.identity, self._found = claimed.identity, claimed.found
            self._partitions: dict[int, PartitionSummary] = {}
            self._noted: dict[str, int | None] = {}
            """Files that change until the next commit, with the sizes they had before."""
            self._resources = stack.pop_all()

    def __enter__(self) -> TopicAssembler:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def run(self) -> str:
        """What tells the files of one job from all others; another one each time it is read."""
        return secrets.token_hex(8)

    def partition(self, number: int) -> PartitionSummary:
        """What the folder holds of one partition, made whole when it is first asked for.

        Raises:
            DamagedBackup: its files are not what was committed.
            StorageError: a file cannot be written.
        """
        if number not in self._partitions:
            self._partitions[number] = self._begin(number)
        return self._partitions[number]

    def add(self, additions: Sequence[Addition]) -> None:
        """Put new segments behind what there is; a run that is killed then leaves no trace.

        Raises:
            StorageError: a file cannot be put in place.
        """
        if any(one.segments for one in additions):
            self._note(name for one in additions for name in self._changed_by(one))
        for one in additions:
            self._add(one)

    def _add(self, new: Addition) -> None:
        held = self.partition(new.partition)
        segments = list(held.segments)
        for segment in new.segments:
            last = segments[-1]
            if last.count and fits(last, segment.part, self._max_segment_bytes):
                segments[-1] = appended(self.folder, last, segment)
            else:
                empty = segments.pop() if last.count == 0 else None
                segments.append(self._place(segment, empty))
        self._partitions[new.partition] = extended(held, segments, new)

    def _changed_by(self, new: Addition) -> Iterator[str]:
        """The files that an addition may change."""
        last = self.partition(new.partition).segments[-1]
        yield from _files(last.prefix)
        for one in new.segments:
            yield from _files(segment_prefix(new.partition, one.part.first_offset))

    def _note(self, names: Iterable[str]) -> None:
        """Note the files *names* as they are, before they are changed for the first time."""
        new = {name: self.folder.size(name) for name in names if name not in self._noted}
        if new:
            self._noted |= new
            pending.note(self.folder, next_commit(self.committed), self._noted)

    @property
    def changed(self) -> bool:
        """Whether a commit would say anything new."""
        return says_more(self.committed, self.identity, self._partitions)

    def commit(self) -> TopicManifest:
        """Make names and indexes durable, then put the manifest in place.

        Raises:
            StorageError: something could not be made durable; the last commit still stands.
        """
        self._write_empty()
        self.folder.sync()
        for number, summary in self._partitions.items():
            self._index(number, summary)
        manifest = next_manifest(self.committed, self.identity, self._partitions)
        write_manifest(self.folder, manifest)
        self.committed = manifest
        if self._noted:
            pending.forget(self.folder)
            self._noted = {}
        return manifest

    def close(self) -> None:
        """Remove parts that were not taken, and give the folder back."""
        try:
            self.folder.remove_leftovers()
        finally:
            self._resources.close()

    def _begin(self, number: int) -> PartitionSummary:
        committed = self.committed.partition(number) if self.committed else None
        files = self._found.get(number, PartitionFiles())
        if committed is not None and self._untouched(committed, files):
            return committed
        found = resume(self.folder, number, committed, files.segments)
        gone = oldest_missing(committed, found.segments)
        segments = gone + _as_known(found.segments, committed) or (_empty(number),)
        known = [one for one in (found.next_offset, _next(committed)) if one is not None]
        log = committed.batch_log if committed else None
        next_offset = max(known, default=None)
        same = committed is not None and committed.next_offset == next_offset
        epoch = committed.end_epoch if committed and same else None
        return PartitionSummary(number, next_offset, segments, log, epoch)

    def _untouched(self, committed: PartitionSummary, files: PartitionFiles) -> bool:
        """Whether the folder holds exactly what was committed, as far as sizes tell."""
        held = {one.start_offset: one.prefix for one in files.segments if one.has_records}
        wanted = {one.start_offset: one for one in committed.segments}
        if not wanted or held.keys() != wanted.keys():
            return False
        return all(
            self.folder.size(records_name(held[start])) == one.records_bytes
            and self.folder.size(segment_index_name(held[start])) is not None
            for start, one in wanted.items()
        )

    def _write_empty(self) -> None:
        """Write the first segments of partitions without records, which have to be there."""
        empty = [
            one.segments[0]
            for one in self._partitions.values()
            if not one.segments[0].count
            and self.folder.size(records_name(one.segments[0].prefix)) is None
        ]
        self._note(name for one in empty for name in _files(one.prefix))
        for one in empty:
            for name in _files(one.prefix):
                self.folder.replace(name, [MAGIC])

    def _place(self, new: NewSegment, empty: SegmentSummary | None) -> SegmentSummary:
        """Give a part its name: that of an *empty* segment before it, whose place it takes."""
        start = empty.start_offset if empty is not None else new.part.first_offset
        prefix = segment_prefix(new.part.partition, start)
        self.folder.rename(new.part.records, records_name(prefix))
        self.folder.rename(new.part.index, segment_index_name(prefix))
        return placed(new, prefix, start, empty)

    def _index(self, number: int, summary: PartitionSummary) -> None:
        """Bring the partition index up to date, where it is not."""
        there = [
            one
            for one in summary.segments
            if self.folder.size(records_name(one.prefix)) is not None
        ]
        wanted = [partition_index.SegmentEntry(one.prefix, one.start_offset) for one in there]
        size = len(partition_index.encode(wanted))
        before = self.committed.partition(number) if self.committed else None
        name = partition_index_name(number)
        if before == summary and self.folder.size(name) == size:
            return
        write_partition_index(self.folder, number, wanted)


def _files(prefix: str) -> tuple[str, str]:
    return records_name(prefix), segment_index_name(prefix)


def _empty(number: int) -> SegmentSummary:
    """The first segment, which is there even when the partition is empty."""
    digest = hashlib.sha256(MAGIC).hexdigest()
    return SegmentSummary(segment_prefix(number, 0), 0, len(MAGIC), digest)


def _as_known(
    found: Sequence[SegmentSummary], committed: PartitionSummary | None
) -> tuple[SegmentSummary, ...]:
    """The segments *found*; of those that somebody else went on with the epochs are not known."""
    known = committed.segments if committed else ()
    counts = {one.start_offset: one.count for one in known}
    return tuple(
        one if counts.get(one.start_offset) == one.count else replace(one, epochs=())
        for one in found
    )


def _next(committed: PartitionSummary | None) -> int | None:
    return committed.next_offset if committed else None
