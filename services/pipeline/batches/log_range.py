"""A range of one partition's log: divided between tasks, and read in batches."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from uuid import UUID

from breakglass.services import patience
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.batches.converting import FetchedBatches, chunks_of
from breakglass.services.pipeline.batches.reader import CHUNK_BYTES, NO_EPOCH, BatchReader
from breakglass.services.pipeline.part_writer import RecordChunk
from breakglass.services.pipeline.source import PartitionSource
from breakglass.services.topic_backup.manifest import TopicIdentity

NO_TOPIC_ID = UUID(int=0)
Ranges = Mapping[int, tuple[int, int]]
"""Offsets ``[start, end)`` by partition; never empty."""
OFFSETS_A_TASK = 200_000
"""A range is divided between cores if each gets at least this many offsets."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """Offsets ``[start, end)`` of one partition up to its stable end at most; never empty."""

    partition: TopicPartition
    topic_id: UUID
    leader: int
    start: int
    end: int
    leader_epoch: int = NO_EPOCH
    """The epoch of the leader; without it a former leader answers too."""

    @property
    def offsets(self) -> int:
        return self.end - self.start


def range_of(identity: TopicIdentity, source: PartitionSource, start: int, end: int) -> LogRange:
    """Offsets ``[start, end)`` of the partition *source* of a topic."""
    epoch = NO_EPOCH if source.leader_epoch is None else source.leader_epoch
    topic_id = identity.topic_id or NO_TOPIC_ID
    return LogRange(source.partition, topic_id, source.leader, start, end, epoch)


def divided(ranges: list[LogRange], cores: int) -> list[LogRange]:
    """The *ranges* in about *cores* pieces, if they are long enough."""
    total = sum(wanted.offsets for wanted in ranges)
    tasks = min(cores, total // OFFSETS_A_TASK)
    if tasks <= len(ranges):
        return list(ranges)
    return [piece for wanted in ranges for piece in _pieces(wanted, total // tasks)]


def _pieces(whole: LogRange, size: int) -> Iterator[LogRange]:
    count = max(1, round(whole.offsets / size))
    bounds = [whole.start + whole.offsets * number // count for number in range(count + 1)]
    for start, end in pairwise(bounds):
        yield replace(whole, start=start, end=end)


def chunks_in(
    client: ReadClient,
    wanted: LogRange,
    seconds: float = patience.JOB,
    chunk_bytes: int = CHUNK_BYTES,
) -> Generator[RecordChunk, None, None]:
    """The committed records of *wanted*, encoded; offsets rise.

    Raises:
        ClusterError, Unreachable: as `BatchReader.fetches`.
    """
    with closing(fetches_in(client, wanted, seconds, chunk_bytes)) as fetches:
        for fetched in fetches:
            yield from chunks_of(fetched, wanted.start, wanted.end)


def fetches_in(
    client: ReadClient,
    wanted: LogRange,
    seconds: float = patience.JOB,
    chunk_bytes: int = CHUNK_BYTES,
) -> Generator[FetchedBatches, None, None]:
    """The batches that contain *wanted*. Raises: as `BatchReader.fetches`."""
    reader = BatchReader(
        client,
        wanted.partition,
        wanted.topic_id,
        wanted.leader,
        wanted.leader_epoch,
        chunk_bytes,
        seconds,
    )
    return reader.fetches(wanted.start, wanted.end)
