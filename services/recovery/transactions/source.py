"""Reads batches of a partition from a dead broker's log folder or from a rescue.

These may have the marker that the elected log lacks. Sources are only read::

    log:DIR       a folder of log.dirs, or of one replica
    rescue:DIR    what a rescue saved: its folder, or that of one of its brokers
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from breakglass.services.divergence.log_source import open_log
from breakglass.services.divergence.source import Reading, UnreadableRange
from breakglass.services.errors import UsageError
from breakglass.services.model import EpochHistory, TopicPartition, Unknown
from breakglass.services.record_batches import Record, RecordBatch
from breakglass.services.recovery.rescue.broker_folder import (
    LOG,
    RescuedPartitionFolder,
    open_log_folder,
)
from breakglass.services.recovery.rescue.past_leader import ranges_of, written_epochs
from breakglass.services.topic_backup.batch_log import BatchState
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import read_manifest

RESCUE = "rescue:"


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """One batch with its records, read from a broker, a folder or a rescue."""

    producer_id: int
    transactional: bool
    commit: bool | None
    """Whether a marker commits its transaction; None: the batch has data."""
    records: tuple[Record, ...]
    leader_epoch: int = -1
    """The epoch of the leader that wrote the batch."""

    @classmethod
    def of(cls, batch: RecordBatch) -> LoggedBatch:
        """*batch* of a log; a control batch gets no records, since none is needed."""
        header = batch.header
        records = () if header.control else batch.records
        return cls(
            header.producer_id,
            header.transactional,
            BatchState.of(batch).commit,
            records,
            header.leader_epoch,
        )


@dataclass(frozen=True, slots=True)
class SourceLog:
    """One partition in one source."""

    name: str
    """The name in sentences: the source's address."""
    partition: TopicPartition
    path: Path
    """The replica's folder, or the topic's folder in a rescue."""
    rescued: bool
    cluster_id: str | None
    """None where the source does not say."""
    topic_id: UUID | None
    """None where the source does not say."""
    broker: int | None = None
    """Whose log folder it is; None for a rescue, and where the folder does not say."""

    def states(self, start: int) -> Iterator[BatchState | UnreadableRange]:
        """The batches' states from *start* on, by offset; the first batch may begin before.

        Raises:
            StorageError, DamagedBackup: the source cannot be read.
        """
        if self.rescued:
            yield from self._rescue.states(start)
            return
        for item in open_log(self.name, self.path).whole_batches(start, Reading()):
            yield item if isinstance(item, UnreadableRange) else BatchState.of(item)

    def batches(self, start: int) -> Iterator[LoggedBatch | UnreadableRange]:
        """The batches with their records from *start* on. Raises as `states`."""
        if not self.rescued:
            for item in open_log(self.name, self.path).whole_batches(start, Reading()):
                yield item if isinstance(item, UnreadableRange) else LoggedBatch.of(item)
            return
        records = self._rescue.records(start)
        waiting = next(records, None)
        for state in self._rescue.states(start):
            held: list[Record] = []
            while waiting is not None and waiting.offset <= state.last_offset:
                held.append(waiting)
                waiting = next(records, None)
            yield LoggedBatch(
                state.producer_id,
                state.transactional,
                state.commit,
                tuple(held),
                state.leader_epoch,
            )

    def start(self) -> int | None:
        """The first offset; None if there is no batch."""
        if not self.rescued:
            return open_log(self.name, self.path).extent.start
        return next((state.base_offset for state in self._rescue.states(0)), None)

    def end(self) -> int | None:
        """One past the last offset; None if there is no batch."""
        if not self.rescued:
            return open_log(self.name, self.path).extent.end
        last: int | None = None
        for state in self._rescue.states(0):
            last = state.last_offset + 1
        return last

    def epochs(self) -> EpochHistory | Unknown:
        """The leader epochs, as far back as the source has batches. Raises as `states`."""
        end = self.end()
        if end is None:
            return Unknown(f"{self.name} is empty")
        if not self.rescued:
            return written_epochs(self.path, end)
        starts: list[tuple[int, int]] = []
        for state in self._rescue.states(0):
            if not starts or starts[-1][0] != state.leader_epoch:
                starts.append((state.leader_epoch, state.base_offset))
        return EpochHistory(ranges_of(starts, end), starts[0][1])

    @property
    def _rescue(self) -> RescuedPartitionFolder:
        return RescuedPartitionFolder(self.path, self.partition)


def open_sources(addresses: Iterable[str], *, while_running: bool = False) -> tuple[SourceLog, ...]:
    """Every partition in the sources at *addresses*.

    Raises:
        UsageError: an address is not one of a source.
        Refused: the broker of a log folder is running.
        StorageError: a source cannot be read.
    """
    found: list[SourceLog] = []
    for address in addresses:
        if address.startswith(LOG):
            folder = open_log_folder(address, while_running=while_running)
            found += [
                SourceLog(
                    f"{LOG}{replica.path}",
                    replica.partition,
                    replica.path,
                    False,
                    folder.cluster_id,
                    replica.topic_id,
                    folder.broker,
                )
                for replica in folder.replicas
            ]
        elif address.startswith(RESCUE):
            found += _rescued(address)
        else:
            raise UsageError(f"{address!r} is written neither log:DIR nor rescue:DIR: write it so.")
    return tuple(found)


def _rescued(address: str) -> list[SourceLog]:
    root = Path(address.removeprefix(RESCUE))
    if not root.is_dir():
        raise UsageError(f"{root} is no folder: name what a rescue saved, as its journal does.")
    topics = [path for path in sorted((*root.glob("*"), *root.glob("b*/*"))) if path.is_dir()]
    found = [partition for topic in topics for partition in _partitions(topic)]
    if not found:
        raise UsageError(f"{root} holds no rescue: name the folder that a rescue saved into.")
    return found


def _partitions(topic: Path) -> Iterator[SourceLog]:
    """The partitions of one topic of a rescue; none if the folder is not a rescued topic."""
    manifest = read_manifest(LocalFolder(topic))
    if manifest is None:
        return
    for held in manifest.partitions:
        if held.batch_log is not None:
            partition = TopicPartition(manifest.identity.topic, held.partition)
            name = f"{RESCUE}{topic}/{held.partition}"
            yield SourceLog(
                name,
                partition,
                topic,
                True,
                manifest.identity.cluster_id,
                manifest.identity.topic_id,
            )
