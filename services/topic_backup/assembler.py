"""Assembles the backup of one topic from segments that tasks write elsewhere.

Tasks write parts beside the segments (`part.part_names`). The assembler renames the parts, updates
the indexes and writes the manifest last. It does not read or copy the records.

In a folder where files never change, tasks write segments under their final names
(`part.run_part_names`). Only the manifest decides which of them belong to the backup; it is created
last, and by only one of two concurrent runs. Two small segments whose bytes are as committed are
rewritten as one, so that frequent runs leave few objects.
"""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

from breakglass.services.errors import DamagedBackup, UsageError
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
    read_manifest,
    says_more,
    write_manifest,
)
from breakglass.services.topic_backup.notes import (
    PENDING,
    forget,
    note_pending,
    note_verified,
    verified_commit,
)
from breakglass.services.topic_backup.part import (
    Addition,
    extended,
    followed_by,
    placed,
    run_folder,
)
from breakglass.services.topic_backup.partition_writer import MAX_SEGMENT_BYTES
from breakglass.services.topic_backup.resume import oldest_missing, resume
from breakglass.services.topic_backup.segment_bytes import (
    OTHER_BYTES,
    appended,
    chunks,
    fits,
    moved_entries,
)
from breakglass.services.topic_backup.segment_index import (
    SegmentEntry,
    encode_partition_index,
    write_partition_index,
)
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, MAGIC
from breakglass.services.topic_backup.store.store import RunsFolder
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary
from breakglass.services.topic_backup.topic_writer import check_same, claim, merged
from breakglass.services.topic_backup.verification import lacks_last


class Assembler(ABC):
    """Takes the parts that tasks wrote into one topic's folder, and commits them."""

    folder: Folder
    committed: TopicManifest | None
    identity: TopicIdentity

    def __init__(self, max_segment_bytes: int) -> None:
        self.damages: list[str] = []
        self._max_segment_bytes = max_segment_bytes
        self._partitions: dict[int, PartitionSummary] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    @abstractmethod
    def run(self) -> str:
        """A prefix that is unique to the files of one job; every access returns a new one."""

    @abstractmethod
    def partition(self, number: int) -> PartitionSummary:
        """What was committed of one partition, and what was added since."""

    def amend(self, summary: PartitionSummary) -> None:
        """Replace what the next commit says of one partition."""
        self._partitions[summary.partition] = summary

    @abstractmethod
    def add(self, additions: Sequence[Addition]) -> None:
        """Append new segments, which are no part of the backup before the commit.

        Raises StorageError: a file cannot be read or written.
        """

    @property
    def changed(self) -> bool:
        return says_more(self.committed, self.identity, self._partitions)

    @abstractmethod
    def commit(self) -> TopicManifest:
        """Make what was added durable, then write the next manifest.

        Raises:
            AlreadyRunning: another run has committed since this run began.
            StorageError: something could not be made durable; the last commit remains valid.
        """

    @abstractmethod
    def close(self) -> None:
        """Remove the files that no commit names; let other writers in."""


class TopicAssembler(Assembler):
    """Assembles one topic's folder as its only writer; the folder is locked until `close`."""

    folder: LocalFolder

    def __init__(
        self, path: Path, identity: TopicIdentity, *, max_segment_bytes: int = MAX_SEGMENT_BYTES
    ) -> None:
        """Open or create the folder at *path*. Raises: as `claim`."""
        super().__init__(max_segment_bytes)
        self._noted: dict[str, int | None] = {}
        """The sizes of changed files before this run's first change; cleared by a commit."""
        with ExitStack() as stack:
            claimed = stack.enter_context(claim(path, identity))
            self.folder, self.committed = claimed.folder, claimed.committed
            self.identity, self._found = claimed.identity, claimed.found
            self._resources = stack.pop_all()

    @property
    def run(self) -> str:
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

    def add(self, additions: Sequence[Addition]) -> None:
        # If the run is killed before `commit`, the next run removes them.
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
                        note_verified(self.folder, commit, "files", None, whole=False)
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
            note_pending(self.folder, next_commit(self.committed), self._noted)

    def commit(self) -> TopicManifest:
        # The manifest comes last: it must name only files whose names are durable.
        self._write_empty()
        self.folder.sync()
        for number, summary in self._partitions.items():
            self._index(number, summary)
        manifest = next_manifest(self.committed, self.identity, self._partitions)
        # The manifest that was verified last is not to be put back over this one.
        number = max(manifest.commit, verified_commit(self.folder) + 1)
        manifest = replace(manifest, commit=number)
        write_manifest(self.folder, manifest)
        self.committed = manifest
        if self._noted:
            forget(self.folder, PENDING)
            self._noted = {}
        return manifest

    def close(self) -> None:
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
        ) or (empty_segment(segment_prefix(number, 0)),)
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
        wanted = [SegmentEntry(summary.prefix, summary.start_offset) for summary in there]
        size = len(encode_partition_index(wanted))
        before = self.committed.partition(number) if self.committed else None
        name = partition_index_name(number)
        if before == summary and self.folder.size(name) == size:
            return
        write_partition_index(self.folder, number, wanted)


def _files(prefix: str) -> tuple[str, str]:
    return records_name(prefix), segment_index_name(prefix)


def empty_segment(prefix: str) -> SegmentSummary:
    """The first segment, which exists even if the partition is empty."""
    return SegmentSummary(prefix, 0, len(MAGIC), hashlib.sha256(MAGIC).hexdigest())


SMALL_RUN_BYTES = 64 * 1024 * 1024
"""Segments of this size are not joined."""


def worth_joining(one: SegmentSummary, other: SegmentSummary, max_segment_bytes: int) -> bool:
    """Whether to join *other* to *one*, which it follows.

    *one* must be less than twice as large, so that a byte is rewritten a few times and not by every
    run.
    """
    size, more = (each.records_bytes - len(MAGIC) for each in (one, other))
    small = max(size, more) < SMALL_RUN_BYTES and size + more <= max_segment_bytes
    return bool(one.count and other.count) and small and size < 2 * more


def joined(
    folder: Folder, prefix: str, one: SegmentSummary, other: SegmentSummary
) -> SegmentSummary:
    """Write the records of *one* and the following *other* as the segment *prefix*.

    Raises:
        DamagedBackup: the bytes or the index of either segment differ from the commit.
        StorageError: a file cannot be read or written.
    """
    digest = hashlib.sha256()

    def records() -> Iterator[bytes]:
        for chunk in _records(folder, one):
            digest.update(chunk)
            yield chunk
        at = 0
        for chunk in _records(folder, other):
            rest = chunk[len(MAGIC) :] if at == 0 else chunk
            at += len(chunk)
            digest.update(rest)
            yield rest

    folder.replace(records_name(prefix), records())

    def index() -> Iterator[bytes]:
        yield MAGIC
        for segment, shift in ((one, 0), (other, one.records_bytes - FIRST_POSITION)):
            name = segment_index_name(segment.prefix)
            yield from moved_entries(folder, name, segment.count, shift)

    folder.replace(segment_index_name(prefix), index())
    return replace(followed_by(one, other, digest.hexdigest()), prefix=prefix)


def _records(folder: Folder, segment: SegmentSummary) -> Iterator[bytes]:
    """The committed bytes of the records file; their hash is checked after the last of them."""
    name = records_name(segment.prefix)
    digest = hashlib.sha256()
    for chunk in chunks(folder, name, segment.records_bytes):
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != segment.sha256:
        raise DamagedBackup(folder.where(name), 0, OTHER_BYTES)


class RunsAssembler(Assembler):
    """Assembles a folder where files never change. Others may too: the first commit wins."""

    folder: RunsFolder

    def __init__(
        self,
        folder: RunsFolder,
        identity: TopicIdentity,
        *,
        max_segment_bytes: int = MAX_SEGMENT_BYTES,
    ) -> None:
        """Begin where the last commit ended.

        Raises:
            UsageError: the folder belongs to another topic, or to this topic before it was deleted
                and created again; or it has lost its manifest.
            WrongCluster: the folder belongs to another cluster.
            MalformedInput, UnsupportedSchema: the folder's manifest cannot be read.
            StorageError: the folder cannot be read or written.
        """
        super().__init__(max_segment_bytes)
        self.folder = folder
        with ExitStack() as stack:
            stack.enter_context(folder.lock())
            self.committed = read_manifest(folder)
            if lacks_last(folder, self.committed):
                # A commit would remove the files that it does not name: those of the lost one.
                raise UsageError(
                    f"{folder.where()} has lost its last manifest, so which of its files are the "
                    "backup is not known: put the manifest back from another copy, or back up to "
                    "another place."
                )
            check_same(folder, self.committed, identity)
            self.identity = merged(self.committed, identity)
            self._begun = next_commit(self.committed)
            self._resources = stack.pop_all()

    @property
    def run(self) -> str:
        return run_folder(next_commit(self.committed), secrets.token_hex(8))

    def partition(self, number: int) -> PartitionSummary:
        held = self.committed.partition(number) if self.committed else None
        return self._partitions.get(number) or held or PartitionSummary(number, None, ())

    def add(self, additions: Sequence[Addition]) -> None:
        for addition in additions:
            held = self.partition(addition.partition)
            segments = list(held.segments)
            for segment in addition.segments:
                empty = segments.pop() if segments and segments[-1].count == 0 else None
                prefix = segment.part.records.removesuffix(records_name(""))
                segments.append(placed(segment, prefix, segment.part.first_offset, empty))
                self._join(held.partition, segments)
            if not segments:
                # The first segment exists even if the partition is empty.
                prefix = f"{self.run}-0/{segment_prefix(held.partition, 0)}"
                for name in _files(prefix):
                    self.folder.replace(name, [MAGIC])
                segments = [empty_segment(prefix)]
            self._partitions[addition.partition] = extended(held, segments, addition)

    def commit(self) -> TopicManifest:
        manifest = next_manifest(self.committed, self.identity, self._partitions)
        write_manifest(self.folder, manifest)
        self.committed = manifest
        return manifest

    def close(self) -> None:
        with self._resources:
            if next_commit(self.committed) > self._begun:
                self.folder.remove_stale()

    def _join(self, number: int, segments: list[SegmentSummary]) -> None:
        """Join the last segments, as long as `worth_joining` says so."""
        while len(segments) > 1:
            one, other = segments[-2:]
            if not worth_joining(one, other, self._max_segment_bytes):
                return
            prefix = f"{self.run}-0/{segment_prefix(number, one.start_offset)}"
            segments[-2:] = [joined(self.folder, prefix, one, other)]


def assembling(folder: Folder, identity: TopicIdentity, max_segment_bytes: int) -> Assembler:
    """An assembler for the topic in *folder*, until the end of the ``with`` block.

    Raises: as `TopicAssembler` and `RunsAssembler`.
    """
    if isinstance(folder, RunsFolder):
        return RunsAssembler(folder, identity, max_segment_bytes=max_segment_bytes)
    assert isinstance(folder, LocalFolder)
    return TopicAssembler(folder.path, identity, max_segment_bytes=max_segment_bytes)
