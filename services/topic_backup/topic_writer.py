"""The backup of one topic while it is written: its partitions, and the commit of them all."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.layout import PartitionFiles, topic_path
from breakglass.services.topic_backup.manifest import (
    TopicIdentity,
    TopicManifest,
    next_manifest,
    write_manifest,
)
from breakglass.services.topic_backup.partition_writer import MAX_SEGMENT_BYTES, PartitionWriter
from breakglass.services.topic_backup.summary import GapReason, PartitionSummary
from breakglass.services.topic_backup.topic_claim import claim


class TopicWriter:
    """Writes the folder of one topic, alone: the folder is locked until `close`.

    Several threads may write, each a partition of its own. Leaving the ``with`` block without
    `commit` leaves the last commit as it was; the next writer goes on behind what is whole.
    """

    def __init__(
        self,
        root: Path,
        identity: TopicIdentity,
        *,
        max_segment_bytes: int = MAX_SEGMENT_BYTES,
    ) -> None:
        """Open or create the folder of the topic under *root*.

        Raises:
            UsageError: a name that is no topic's, or the folder is of the topic before it was
                deleted and created again.
            WrongCluster: the folder is of another cluster.
            AlreadyRunning: another process writes there.
            MalformedInput, UnsupportedSchema: the folder's manifest cannot be read.
            StorageError: the folder cannot be written.
        """
        self._max_segment_bytes = max_segment_bytes
        self._mutex = threading.Lock()
        self._open: dict[int, PartitionWriter] = {}
        self._finished: dict[int, PartitionSummary] = {}
        self._begun: set[int] = set()
        with ExitStack() as stack:
            claimed = stack.enter_context(claim(topic_path(root, identity.topic), identity))
            self._folder, self._committed = claimed.folder, claimed.committed
            self._identity, self._found = claimed.identity, claimed.found
            self._resources = stack.pop_all()

    def __enter__(self) -> TopicWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def committed(self) -> TopicManifest | None:
        """The last commit of the folder."""
        return self._committed

    def partition(self, number: int) -> PartitionWriter:
        """The writer of one partition, opened when it is first asked for.

        Raises:
            DamagedBackup: the partition's files are not what was committed.
            StorageError: a file cannot be written.
        """
        with self._mutex:
            if number not in self._open:
                self._open[number] = self._begin(number)
            return self._open[number]

    def finish(self, number: int) -> PartitionSummary:
        """Sync one partition and give its files back; the next `commit` takes it in.

        So a thousand partitions can be written one after the other with few files open.

        Raises:
            StorageError: the records could not be made durable; the partition stays as it was
                committed last, and the others can still be committed.
        """
        writer = self.partition(number)
        with self._mutex:
            del self._open[number]
        writer.close()
        with self._mutex:
            self._finished[number] = writer.summary()
            return self._finished[number]

    def commit(self) -> TopicManifest:
        """Sync every open partition, then put the manifest in place: only now it is a backup.

        No thread may append meanwhile.

        Raises:
            StorageError: something could not be made durable; the last commit still stands.
        """
        with self._mutex:
            for writer in self._open.values():
                writer.sync()
            self._folder.sync()
            manifest = self._next_manifest()
            write_manifest(self._folder, manifest)
            self._committed = manifest
            return manifest

    def close(self) -> None:
        """Give the folder back. What was not committed is no part of the backup."""
        with self._mutex:
            for writer in self._open.values():
                writer.abandon()
            self._open.clear()
        self._resources.close()

    def _begin(self, number: int) -> PartitionWriter:
        committed = self._committed.partition(number) if self._committed else None
        written = number in self._begun
        self._begun.add(number)
        return PartitionWriter(
            self._folder,
            TopicPartition(self._identity.topic, number),
            self._finished.get(number, committed),
            files=None if written else self._found.get(number, PartitionFiles()),
            max_segment_bytes=self._max_segment_bytes,
            hole=self._hole,
        )

    @property
    def _hole(self) -> GapReason:
        compacted = "compact" in self._identity.config.get("cleanup.policy", "")
        return GapReason.COMPACTION if compacted else GapReason.UNKNOWN

    def _next_manifest(self) -> TopicManifest:
        written = {number: writer.summary() for number, writer in self._open.items()}
        return next_manifest(self._committed, self._identity, {**self._finished, **written})
