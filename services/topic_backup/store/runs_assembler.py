"""Assembles a topic's backup in a folder where files never change: additions, then the commit.

Tasks write segments under their final names (`part.run_part_names`). Only the manifest decides
which of them belong to the backup; it is created last, and by only one of two concurrent runs. Two
small segments whose bytes are as committed are rewritten as one, so that frequent runs leave few
objects.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from breakglass.services.errors import DamagedBackup, UsageError
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import records_name, segment_index_name, segment_prefix
from breakglass.services.topic_backup.manifest import (
    TopicIdentity,
    TopicManifest,
    next_commit,
    next_manifest,
    read_manifest,
    says_more,
    write_manifest,
)
from breakglass.services.topic_backup.part import (
    Addition,
    extended,
    followed_by,
    placed,
    run_folder,
)
from breakglass.services.topic_backup.partition_writer import MAX_SEGMENT_BYTES
from breakglass.services.topic_backup.segment_bytes import chunks, moved_entries
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, MAGIC
from breakglass.services.topic_backup.store.runs_folder import RunsFolder
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary
from breakglass.services.topic_backup.topic_writer import check_same, merged
from breakglass.services.topic_backup.verification import lacks_last

SMALL_BYTES = 64 * 1024 * 1024
"""Segments of this size are not joined."""


def worth_joining(one: SegmentSummary, other: SegmentSummary, max_segment_bytes: int) -> bool:
    """Whether to join *other* to *one*, which it follows.

    *one* must be less than twice as large, so that a byte is rewritten a few times and not by every
    run.
    """
    size, more = (each.records_bytes - len(MAGIC) for each in (one, other))
    small = max(size, more) < SMALL_BYTES and size + more <= max_segment_bytes
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
    folder.replace(segment_index_name(prefix), _index(folder, one, other))
    return replace(followed_by(one, other, digest.hexdigest()), prefix=prefix)


def _records(folder: Folder, segment: SegmentSummary) -> Iterator[bytes]:
    """The committed bytes of the records file; their hash is checked after the last of them."""
    name = records_name(segment.prefix)
    digest = hashlib.sha256()
    for chunk in chunks(folder, name, segment.records_bytes):
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != segment.sha256:
        reason = "its bytes are not those that were committed (SHA-256)"
        raise DamagedBackup(folder.where(name), 0, reason)


def _index(folder: Folder, one: SegmentSummary, other: SegmentSummary) -> Iterator[bytes]:
    yield MAGIC
    for segment, shift in ((one, 0), (other, one.records_bytes - FIRST_POSITION)):
        yield from moved_entries(folder, segment_index_name(segment.prefix), segment.count, shift)


class RunsAssembler:
    """Assembles the folder of one topic. Others may do so too: the first commit wins."""

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
        self.folder = folder
        self.damages: list[str] = []
        self._max_segment_bytes = max_segment_bytes
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
            self._partitions: dict[int, PartitionSummary] = {}
            self._begun = next_commit(self.committed)
            self._resources = stack.pop_all()

    def __enter__(self) -> RunsAssembler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def run(self) -> str:
        """The prefix of a job's folders, for the next commit."""
        return run_folder(next_commit(self.committed), secrets.token_hex(8))

    def partition(self, number: int) -> PartitionSummary:
        """What was committed of one partition, and what was added since."""
        held = self.committed.partition(number) if self.committed else None
        return self._partitions.get(number) or held or PartitionSummary(number, None, ())

    def amend(self, summary: PartitionSummary) -> None:
        """Replace what the next commit says of one partition."""
        self._partitions[summary.partition] = summary

    def add(self, additions: Sequence[Addition]) -> None:
        """Append new segments; other runs do not see them before the commit.

        Raises:
            StorageError: segments cannot be joined, or an empty segment cannot be written.
        """
        for addition in additions:
            held = self.partition(addition.partition)
            segments = list(held.segments)
            for segment in addition.segments:
                empty = segments.pop() if segments and segments[-1].count == 0 else None
                prefix = segment.part.records.removesuffix(records_name(""))
                segments.append(placed(segment, prefix, segment.part.first_offset, empty))
                self._join(held.partition, segments)
            self._partitions[addition.partition] = extended(
                held, segments or [self._empty(held.partition)], addition
            )

    @property
    def changed(self) -> bool:
        return says_more(self.committed, self.identity, self._partitions)

    def commit(self) -> TopicManifest:
        """Create the next manifest.

        Raises:
            AlreadyRunning: another run has committed since this run began.
            StorageError: the manifest cannot be written; the last commit remains valid.
        """
        manifest = next_manifest(self.committed, self.identity, self._partitions)
        write_manifest(self.folder, manifest)
        self.committed = manifest
        return manifest

    def close(self) -> None:
        """If this run has committed, remove the files that no commit names."""
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

    def _empty(self, number: int) -> SegmentSummary:
        """The first segment, which exists even if the partition is empty."""
        prefix = f"{self.run}-0/{segment_prefix(number, 0)}"
        for name in (records_name(prefix), segment_index_name(prefix)):
            self.folder.replace(name, [MAGIC])
        return SegmentSummary(prefix, 0, len(MAGIC), hashlib.sha256(MAGIC).hexdigest())
