"""The backup of one topic in a folder that nothing is changed in: additions, and the commit.

Tasks write segments under the names they keep (`part.run_part_names`). What becomes of them is
said by the manifest alone, which is created last, and only by one of two runs that race.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

from breakglass.services.topic_backup.addition import Addition, extended, placed
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
from breakglass.services.topic_backup.part import run_folder
from breakglass.services.topic_backup.partition_writer import MAX_SEGMENT_BYTES
from breakglass.services.topic_backup.segment_reader import MAGIC
from breakglass.services.topic_backup.store.joining import joined, worth_joining
from breakglass.services.topic_backup.store.runs_folder import RunsFolder
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary
from breakglass.services.topic_backup.topic_claim import check_same, merged


class RunsAssembler:
    """Assembles the folder of one topic. Others may, too: the first commit counts."""

    def __init__(
        self,
        folder: RunsFolder,
        identity: TopicIdentity,
        *,
        max_segment_bytes: int = MAX_SEGMENT_BYTES,
    ) -> None:
        """Begin where the last commit ended.

        Raises:
            UsageError: the folder is of another topic, or of this one before it was deleted and
                created again.
            WrongCluster: the folder is of another cluster.
            MalformedInput, UnsupportedSchema: the folder's manifest cannot be read.
            StorageError: the folder cannot be read or written.
        """
        self.folder = folder
        self._max_segment_bytes = max_segment_bytes
        with ExitStack() as stack:
            stack.enter_context(folder.lock())
            self.committed = read_manifest(folder)
            check_same(folder, self.committed, identity)
            self.identity = merged(self.committed, identity)
            self._partitions: dict[int, PartitionSummary] = {}
            self._begun = next_commit(self.committed)
            self._resources = stack.pop_all()

    def __enter__(self) -> RunsAssembler:
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
        """How the folders of a job's files begin, for the commit that is next."""
        return run_folder(next_commit(self.committed), secrets.token_hex(8))

    def partition(self, number: int) -> PartitionSummary:
        """What was committed of one partition, and what was added since."""
        held = self.committed.partition(number) if self.committed else None
        return self._partitions.get(number) or held or PartitionSummary(number, None, ())

    def add(self, additions: Sequence[Addition]) -> None:
        """Put new segments behind what there is; nobody else knows of it before the commit.

        Raises:
            StorageError: segments cannot be joined, or that of an empty partition not be written.
        """
        for one in additions:
            self._partitions[one.partition] = self._added(self.partition(one.partition), one)

    @property
    def changed(self) -> bool:
        """Whether a commit would say anything new."""
        return says_more(self.committed, self.identity, self._partitions)

    def commit(self) -> TopicManifest:
        """Create the next manifest.

        Raises:
            AlreadyRunning: another run has committed meanwhile.
            StorageError: it cannot be written; the last commit still stands.
        """
        manifest = next_manifest(self.committed, self.identity, self._partitions)
        write_manifest(self.folder, manifest)
        self.committed = manifest
        return manifest

    def close(self) -> None:
        """Remove what no commit names, if this run has made one."""
        with self._resources:
            if next_commit(self.committed) > self._begun:
                self.folder.remove_stale()

    def _added(self, held: PartitionSummary, new: Addition) -> PartitionSummary:
        segments = list(held.segments)
        for one in new.segments:
            empty = segments.pop() if segments and segments[-1].count == 0 else None
            prefix = one.part.records.removesuffix(records_name(""))
            segments.append(placed(one, prefix, one.part.first_offset, empty))
            self._join(held.partition, segments)
        return extended(held, segments or [self._empty(held.partition)], new)

    def _join(self, number: int, segments: list[SegmentSummary]) -> None:
        """Make one of the last segments as long as that is worth it."""
        while len(segments) > 1:
            one, other = segments[-2:]
            if not worth_joining(one, other, self._max_segment_bytes):
                return
            prefix = f"{self.run}-0/{segment_prefix(number, one.start_offset)}"
            segments[-2:] = [joined(self.folder, prefix, one, other)]

    def _empty(self, number: int) -> SegmentSummary:
        """The first segment, which is there even when the partition is empty."""
        prefix = f"{self.run}-0/{segment_prefix(number, 0)}"
        for name in (records_name(prefix), segment_index_name(prefix)):
            self.folder.replace(name, [MAGIC])
        return SegmentSummary(prefix, 0, len(MAGIC), hashlib.sha256(MAGIC).hexdigest())
