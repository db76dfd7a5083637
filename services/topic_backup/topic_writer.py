"""Writes the backup of one topic: locks its folder, writes its partitions, and commits them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from breakglass.services.errors import UsageError, WrongCluster
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.layout import PartitionFiles, listing, topic_path
from breakglass.services.topic_backup.manifest import (
    TopicIdentity,
    TopicManifest,
    next_manifest,
    read_manifest,
    write_manifest,
)
from breakglass.services.topic_backup.notes import take_back
from breakglass.services.topic_backup.partition_writer import MAX_SEGMENT_BYTES, PartitionWriter
from breakglass.services.topic_backup.summary import GapReason, PartitionSummary


@dataclass(frozen=True, slots=True)
class Claim:
    """A locked folder, as it was found."""

    folder: LocalFolder
    committed: TopicManifest | None
    """The last commit; None in a new folder."""
    identity: TopicIdentity
    """The topic's identity, completed from the last commit."""
    found: Mapping[int, PartitionFiles]
    """The files of each partition, from one listing: a listing for each partition would take
    quadratic time.
    """


@contextmanager
def claim(path: Path, identity: TopicIdentity) -> Iterator[Claim]:
    """Open or create the folder at *path*, locked until the end of the ``with`` block.

    Raises:
        UsageError: the folder belongs to another topic, or to this topic before it was deleted
            and created again.
        WrongCluster: the folder belongs to another cluster.
        AlreadyRunning: another process is writing to the folder.
        MalformedInput, UnsupportedSchema: the folder's manifest, or a killed run's note, cannot
            be read.
        StorageError: the folder cannot be written.
    """
    folder = LocalFolder.create(path)
    with folder.lock():
        folder.remove_leftovers()
        committed = read_manifest(folder)
        check_same(folder, committed, identity)
        take_back(folder, committed.commit if committed else 0)
        yield Claim(folder, committed, merged(committed, identity), listing(folder.names()))


def check_same(folder: Folder, committed: TopicManifest | None, identity: TopicIdentity) -> None:
    """Check that the folder belongs to the same topic and cluster, as far as both are known.

    Raises WrongCluster, UsageError: the folder belongs to another.
    """
    held = committed.identity if committed else identity
    if _differ(held.cluster_id, identity.cluster_id):
        raise WrongCluster(
            f"{folder.where()} is a backup of cluster {held.cluster_id}, this is cluster "
            f"{identity.cluster_id}: choose another folder."
        )
    if held.topic != identity.topic or _differ(held.topic_id, identity.topic_id):
        raise UsageError(
            f"{folder.where()} is a backup of topic {held.topic} with id {held.topic_id}, this is "
            f"{identity.topic} with id {identity.topic_id}, created again: choose another folder."
        )


def merged(committed: TopicManifest | None, identity: TopicIdentity) -> TopicIdentity:
    """*identity*, in which the last commit completes unknown ids and the origin."""
    if committed is None:
        return identity
    held = committed.identity
    return replace(
        identity,
        cluster_id=identity.cluster_id or held.cluster_id,
        topic_id=identity.topic_id or held.topic_id,
        origin=identity.origin or held.origin,
    )


def _differ(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other


class TopicWriter:
    """Writes one topic's folder as its only writer; the folder is locked until `close`.

    Several threads may write, each to its own partition. If the ``with`` block ends without
    `commit`, the last commit remains valid, and the next writer continues after the last complete
    record.
    """

    def __init__(
        self, root: Path, identity: TopicIdentity, *, max_segment_bytes: int = MAX_SEGMENT_BYTES
    ) -> None:
        """Open or create the folder of the topic under *root*.

        Raises: as `claim`; UsageError if the name is not valid for a topic.
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

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def committed(self) -> TopicManifest | None:
        return self._committed

    def partition(self, number: int) -> PartitionWriter:
        """The writer of one partition; the first call opens it.

        Raises:
            DamagedBackup: the partition's files differ from the last commit.
            StorageError: a file cannot be written.
        """
        with self._mutex:
            if number not in self._open:
                committed = self._committed.partition(number) if self._committed else None
                written = number in self._begun
                self._begun.add(number)
                compacted = "compact" in self._identity.config.get("cleanup.policy", "")
                self._open[number] = PartitionWriter(
                    self._folder,
                    TopicPartition(self._identity.topic, number),
                    self._finished.get(number, committed),
                    files=None if written else self._found.get(number, PartitionFiles()),
                    max_segment_bytes=self._max_segment_bytes,
                    hole=(GapReason.COMPACTION if compacted else GapReason.UNKNOWN),
                )
            return self._open[number]

    def finish(self, number: int) -> PartitionSummary:
        """Sync one partition and close its files; the next `commit` includes it.

        Thus a thousand partitions can be written one after the other with few open files.

        Raises:
            StorageError: the records could not be made durable; the partition's last commit remains
                valid, and the other partitions can still be committed.
        """
        writer = self.partition(number)
        with self._mutex:
            del self._open[number]
        writer.close()
        with self._mutex:
            self._finished[number] = writer.summary()
            return self._finished[number]

    def commit(self) -> TopicManifest:
        """Sync every open partition, then replace the manifest, which makes the records a backup.

        No thread may append during the call.

        Raises StorageError: something could not be made durable; the last commit remains valid.
        """
        with self._mutex:
            for writer in self._open.values():
                writer.sync()
            self._folder.sync()
            written = {number: writer.summary() for number, writer in self._open.items()}
            manifest = next_manifest(self._committed, self._identity, {**self._finished, **written})
            write_manifest(self._folder, manifest)
            self._committed = manifest
            return manifest

    def close(self) -> None:
        """Unlock the folder. Records without a commit are not part of the backup."""
        with self._mutex:
            for writer in self._open.values():
                writer.abandon()
            self._open.clear()
        self._resources.close()
