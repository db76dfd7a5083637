"""What one task of a copy does: a range of a partition, from its leader's batches to parts."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from uuid import UUID

from services.kafka.read_client import ReadClient
from services.model import TopicPartition
from services.pipeline.batches.converting import FetchedBatches, chunks_of
from services.pipeline.batches.reader import (
    CHUNK_BYTES,
    NO_EPOCH,
    PATIENCE_SECONDS,
    BatchReader,
)
from services.pipeline.part_writer import Chunk, PartTarget, PartTask
from services.pipeline.source import PartitionSource
from services.topic_backup.folder import storage_errors
from services.topic_backup.manifest import TopicIdentity
from services.topic_backup.part import Part

NO_TOPIC_ID = UUID(int=0)
SIP_BYTES = 1024 * 1024
"""Of a fetch beside live traffic: one of megabytes holds up whoever comes behind it."""
OFFSETS_A_TASK = 200_000
"""A range is divided between cores if each gets so many."""


@dataclass(frozen=True, slots=True)
class CopyRange:
    """Offsets ``[start, end)`` of one partition, not past its stable end; never none."""

    partition: TopicPartition
    topic_id: UUID
    leader: int
    start: int
    end: int
    leader_epoch: int = NO_EPOCH
    """In which the leader leads; without it a broker that leads no more answers, too."""

    @property
    def offsets(self) -> int:
        return self.end - self.start


def range_of(identity: TopicIdentity, source: PartitionSource, start: int, end: int) -> CopyRange:
    """Offsets ``[start, end)`` of a partition, which is as *source* says, of that topic."""
    epoch = NO_EPOCH if source.leader_epoch is None else source.leader_epoch
    topic_id = identity.topic_id or NO_TOPIC_ID
    return CopyRange(source.partition, topic_id, source.leader, start, end, epoch)


def divided(ranges: list[CopyRange], cores: int) -> list[CopyRange]:
    """The *ranges* in about as many pieces as there are *cores*, where they are long enough."""
    total = sum(one.offsets for one in ranges)
    tasks = min(cores, total // OFFSETS_A_TASK)
    if tasks <= len(ranges):
        return list(ranges)
    return [piece for one in ranges for piece in _pieces(one, total // tasks)]


def _pieces(one: CopyRange, size: int) -> Iterator[CopyRange]:
    count = max(1, round(one.offsets / size))
    bounds = [one.start + one.offsets * number // count for number in range(count + 1)]
    for start, end in pairwise(bounds):
        yield replace(one, start=start, end=end)


@dataclass(frozen=True, slots=True)
class CopyWork:
    """Copies ranges in tasks: `tasks.RangeWork`."""

    targets: Mapping[str, PartTarget]
    """Where the parts of each topic go."""

    def __call__(
        self, client: ReadClient, wanted: CopyRange, attempt: int, patience: float
    ) -> Iterator[str]:
        """The parts of one range, as JSON."""
        target = self.targets[wanted.partition.topic]
        for part in copy_range(client, wanted, target, attempt, patience):
            yield part.to_json()


def copy_range(
    client: ReadClient,
    wanted: CopyRange,
    target: PartTarget,
    attempt: int,
    patience: float = PATIENCE_SECONDS,
) -> Iterator[Part]:
    """Write the committed records of *wanted*; yields each part when it is whole and durable.

    The *client* knows the brokers' addresses.

    Raises:
        StorageError: nothing more can be written.
        ClusterError, Unreachable: as `BatchReader.fetches`.
    """
    chunk_bytes = CHUNK_BYTES if target.bytes_per_second is None else SIP_BYTES
    with (
        storage_errors(target.folder.where()),
        closing(chunks_in(client, wanted, patience, chunk_bytes)) as chunks,
        PartTask(target, attempt) as task,
    ):
        for chunk in chunks:
            yield from task.take(chunk)
        yield from task.finish()


def chunks_in(
    client: ReadClient,
    wanted: CopyRange,
    patience: float = PATIENCE_SECONDS,
    chunk_bytes: int = CHUNK_BYTES,
) -> Generator[Chunk, None, None]:
    """The committed records of *wanted*, encoded; offsets rise.

    Raises:
        ClusterError, Unreachable: as `BatchReader.fetches`.
    """
    with closing(fetches_in(client, wanted, patience, chunk_bytes)) as fetches:
        for fetched in fetches:
            yield from chunks_of(fetched, wanted.start, wanted.end)


def fetches_in(
    client: ReadClient,
    wanted: CopyRange,
    patience: float = PATIENCE_SECONDS,
    chunk_bytes: int = CHUNK_BYTES,
) -> Generator[FetchedBatches, None, None]:
    """The batches that *wanted* lies in. Raises: as `BatchReader.fetches`."""
    reader = BatchReader(
        client,
        wanted.partition,
        wanted.topic_id,
        wanted.leader,
        wanted.leader_epoch,
        chunk_bytes,
        patience,
    )
    return reader.fetches(wanted.start, wanted.end)
