"""Reads the partitions that rescues saved: their records, and the states of their batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.errors import BreakglassError, DamagedBackup
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.batch_log import BatchState, read_batch_log
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import MANIFEST
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.summary import PartitionSummary


@dataclass(frozen=True, slots=True)
class RescuedPartitionFolder:
    """One rescue's folder of one partition."""

    topic_folder: Path
    partition: TopicPartition

    def records(self, start: int, end: int | None = None) -> Iterator[Record]:
        """The records with offsets of ``[start, end)``, as they were committed.

        Raises:
            StorageError, DamagedBackup: the rescue cannot be read, or is not as it was committed.
        """
        held = self._held()
        if held is None:
            return
        reader = PartitionReader(self._folder, self.partition.partition, held)
        yield from reader.records(start, end)
        for out in reader.damages:
            raise DamagedBackup(out.file, out.position, out.reason)

    def states(self, start: int) -> Iterator[BatchState]:
        """The states of the batches from *start* on; the first batch may begin before.

        Raises:
            StorageError, DamagedBackup: the rescue cannot be read.
        """
        held = self._held()
        if held is not None and held.batch_log is not None:
            states = read_batch_log(self._folder, self.partition.partition, held.batch_log)
            yield from (state for state in states if state.last_offset >= start)

    def markers(self, start: int, end: int) -> Iterator[BatchState]:
        """The transaction markers of ``[start, end)``. Raises as `states`."""
        for state in self.states(start):
            if state.commit is not None and start <= state.base_offset < end:
                yield state

    @property
    def _folder(self) -> LocalFolder:
        return LocalFolder(self.topic_folder)

    def _held(self) -> PartitionSummary | None:
        manifest = read_manifest(self._folder)
        return manifest.partition(self.partition.partition) if manifest else None


Rescues = Mapping[TopicPartition, Sequence[RescuedPartitionFolder]]


DEPTHS = ("", "*/", "*/*/", "*/*/*/", "*/*/*/*/")
"""A topic's folder lies at ``cluster/time/broker/topic`` below the folder of all rescues."""


def rescues_in(
    roots: Sequence[Path],
    states: Mapping[TopicPartition, PartitionState],
    unread: Callable[[Path, BreakglassError], object] = lambda _folder, _error: None,
) -> Rescues:
    """The folders of rescues below *roots* for the partitions of *states*, by topic id.

    One whose manifest cannot be read counts as none, and hides no other: *unread* gets it.
    """
    found: dict[TopicPartition, list[RescuedPartitionFolder]] = {}
    manifests = {path for root in roots for depth in DEPTHS for path in root.glob(depth + MANIFEST)}
    for topic in sorted({manifest.parent for manifest in manifests}):
        try:
            manifest = read_manifest(LocalFolder(topic))
        except BreakglassError as error:
            unread(topic, error)
            continue
        if manifest is None:
            continue
        for held in manifest.partitions:
            partition = TopicPartition(manifest.identity.topic, held.partition)
            state = states.get(partition)
            if state is not None and manifest.identity.topic_id == state.topic_id:
                rescued = RescuedPartitionFolder(topic, partition)
                found.setdefault(partition, []).append(rescued)
    return found
