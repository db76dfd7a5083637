"""Assembles the backup of one topic from segments that tasks write elsewhere.

Tasks write parts beside the segments (`topic_backup.part`). The assembler renames the parts,
updates the indexes and writes the manifest last. It does not read or copy the records.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path

from breakglass.services.topic_backup import partition_index, pending, verified
from breakglass.services.topic_backup.folder import Folder, LocalFolder
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
from breakglass.services.topic_backup.part import Addition, extended, placed
from breakglass.services.topic_backup.partition_writer import MAX_SEGMENT_BYTES
from breakglass.services.topic_backup.reindex import write_partition_index
from breakglass.services.topic_backup.resume import oldest_missing, resume
from breakglass.services.topic_backup.segment_bytes import appended, fits
from breakglass.services.topic_backup.segment_reader import MAGIC
from breakglass.services.topic_backup.soundness import OTHER_BYTES
from breakglass.services.topic_backup.store.runs_assembler import RunsAssembler
from breakglass.services.topic_backup.store.runs_folder import RunsFolder
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary
from breakglass.services.topic_backup.topic_writer import claim


class TopicAssembler:
    """Assembles one topic's folder as its only writer; the folder is locked until `close`."""

    def __init__(
        self, path: Path, identity: TopicIdentity, *, max_segment_bytes: int = MAX_SEGMENT_BYTES
    ) -> None:
        """Open or create the folder at *path*.

        Raises:
            UsageError: the folder belongs to another topic, or to this topic before it was deleted
                and created again.
            WrongCluster: the folder belongs to another cluster.
            AlreadyRunning: another process is writing to the folder.
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
            """The sizes of changed files before this run's first change; cleared by a commit."""
            self.damages: list[str] = []
            self._resources = stack.pop_all()

    def __enter__(self) -> TopicAssembler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def run(self) -> str:
        """A prefix that is unique to the files of one job; every access returns a new one."""
        return secrets.token_hex(8)

    def partition(self, number: int) -> PartitionSummary:
        """The content of one partition, which the first call restores to a consistent state.

        Raises:
            DamagedBackup: the partition's files differ from the last commit.
            StorageError: a file cannot be written.
        """
        if number not in self._partitions:
            self._partitions[number] = self._begin(number)
        return self._partitions[number]

    def amend(self, summary: PartitionSummary) -> None:
        """Replace what the next commit says of one partition."""
        self._partitions[summary.partition] = summary

    def add(self, additions: Sequence[Addition]) -> None:
        """Append new segments; if the run is killed before `commit`, the next run removes them.

        Raises:
            StorageError: a file cannot be renamed.
        """
        if any(addition.segments for addition in additions):
            self._note(name for addition in additions for name in self._changed_by(addition))
        for addition in additions:
            held = self.partition(addition.partition)
            segments = list(held.segments)
            for segment in addition.segments:
                last = segments[-1]
                joined = None
                if last.count and fits(last, segment.part, self._max_segment_bytes):
                    joined = appended(self.folder, last, segment)
                    if joined is None and self.committed is not None:
                        commit = self.committed.commit
                        verified.note(self.folder, commit, "files", None, whole=False)
                        name = self.folder.where(records_name(last.prefix))
                        self.damages.append(
                            f"{name}: {OTHER_BYTES}; offsets from {last.first_offset} on"
                        )
                if joined is not None:
                    segments[-1] = joined
                else:
                    empty = segments.pop() if last.count == 0 else None
                    # Rename a part to a segment; it replaces an *empty* segment before it.
                    start = empty.start_offset if empty is not None else segment.part.first_offset
                    prefix = segment_prefix(segment.part.partition, start)
                    self.folder.rename(segment.part.records, records_name(prefix))
                    self.folder.rename(segment.part.index, segment_index_name(prefix))
                    segments.append(placed(segment, prefix, start, empty))
            self._partitions[addition.partition] = extended(held, segments, addition)

    def _changed_by(self, new: Addition) -> Iterator[str]:
        last = self.partition(new.partition).segments[-1]
        yield from _files(last.prefix)
        for segment in new.segments:
            yield from _files(segment_prefix(new.partition, segment.part.first_offset))

    def _note(self, names: Iterable[str]) -> None:
        """Record the current sizes of the files *names* before they change for the first time."""
        new = {name: self.folder.size(name) for name in names if name not in self._noted}
        if new:
            self._noted |= new
            pending.note(self.folder, next_commit(self.committed), self._noted)

    @property
    def changed(self) -> bool:
        return says_more(self.committed, self.identity, self._partitions)

    def commit(self) -> TopicManifest:
        """Make names and indexes durable, then replace the manifest.

        Raises:
            StorageError: something could not be made durable; the last commit remains valid.
        """
        # The manifest comes last: it must name only files whose names are durable.
        self._write_empty()
        self.folder.sync()
        for number, summary in self._partitions.items():
            self._index(number, summary)
        manifest = next_manifest(self.committed, self.identity, self._partitions)
        # The manifest that was verified last is not to be put back over this one.
        number = max(manifest.commit, verified.newest_commit(self.folder) + 1)
        manifest = replace(manifest, commit=number)
        write_manifest(self.folder, manifest)
        self.committed = manifest
        if self._noted:
            pending.forget(self.folder)
            self._noted = {}
        return manifest

    def close(self) -> None:
        """Remove the parts that were not used, and unlock the folder."""
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
        # The segments found; leader epochs are unknown where another writer extended a segment.
        known = committed.segments if committed else ()
        counts = {summary.start_offset: summary.count for summary in known}
        segments = gone + (
            tuple(
                summary
                if counts.get(summary.start_offset) == summary.count
                else replace(summary, epochs=())
                for summary in found.segments
            )
        ) or (_empty(number),)
        ends = (found.next_offset, committed.next_offset if committed else None)
        next_offset = max((end for end in ends if end is not None), default=None)
        same = committed is not None and committed.next_offset == next_offset
        epoch = committed.end_epoch if committed and same else None
        held = committed or PartitionSummary(number, None, ())
        return replace(
            held,
            next_offset=next_offset,
            segments=segments,
            end_epoch=epoch,
            unproved=found.unproved,
        )

    def _untouched(self, committed: PartitionSummary, files: PartitionFiles) -> bool:
        """Whether the folder contains exactly what was committed, judged by file sizes."""
        held = {
            segment.start_offset: segment.prefix
            for segment in files.segments
            if segment.has_records
        }
        wanted = {segment.start_offset: segment for segment in committed.segments}
        if not wanted or held.keys() != wanted.keys():
            return False
        return all(
            self.folder.size(records_name(held[start])) == one.records_bytes
            and self.folder.size(segment_index_name(held[start])) is not None
            for start, one in wanted.items()
        )

    def _write_empty(self) -> None:
        """Write the first segment of each empty partition; the format requires one."""
        empty = [
            partition.segments[0]
            for partition in self._partitions.values()
            if not partition.segments[0].count
            and self.folder.size(records_name(partition.segments[0].prefix)) is None
        ]
        self._note(name for summary in empty for name in _files(summary.prefix))
        for summary in empty:
            for name in _files(summary.prefix):
                self.folder.replace(name, [MAGIC])

    def _index(self, number: int, summary: PartitionSummary) -> None:
        there = [
            segment
            for segment in summary.segments
            if self.folder.size(records_name(segment.prefix)) is not None
        ]
        wanted = [
            partition_index.SegmentEntry(summary.prefix, summary.start_offset) for summary in there
        ]
        size = len(partition_index.encode(wanted))
        before = self.committed.partition(number) if self.committed else None
        name = partition_index_name(number)
        if before == summary and self.folder.size(name) == size:
            return
        write_partition_index(self.folder, number, wanted)


def _files(prefix: str) -> tuple[str, str]:
    return records_name(prefix), segment_index_name(prefix)


def _empty(number: int) -> SegmentSummary:
    """The first segment, which exists even if the partition is empty."""
    digest = hashlib.sha256(MAGIC).hexdigest()
    return SegmentSummary(segment_prefix(number, 0), 0, len(MAGIC), digest)


Assembler = TopicAssembler | RunsAssembler
"""Takes the parts that tasks wrote, and commits them."""


def assembling(
    folder: Folder, identity: TopicIdentity, max_segment_bytes: int
) -> AbstractContextManager[Assembler]:
    """An assembler for the topic in *folder*, until the end of the ``with`` block.

    Raises: as `TopicAssembler` and `RunsAssembler`.
    """
    if isinstance(folder, RunsFolder):
        return RunsAssembler(folder, identity, max_segment_bytes=max_segment_bytes)
    assert isinstance(folder, LocalFolder)
    return TopicAssembler(folder.path, identity, max_segment_bytes=max_segment_bytes)
