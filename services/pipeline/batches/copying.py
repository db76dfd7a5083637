"""What one task of a copy does: a range of a partition, from its leader's batches to parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from services.kafka.read_client import ReadClient
from services.pipeline.batches.log_range import LogRange, chunks_in
from services.pipeline.batches.reader import CHUNK_BYTES, PATIENCE_SECONDS
from services.pipeline.part_writer import PartTarget, PartTask
from services.topic_backup.folder import storage_errors
from services.topic_backup.part import SegmentPart

SIP_BYTES = 1024 * 1024
"""Of a fetch beside live traffic: one of megabytes holds up whoever comes behind it."""


@dataclass(frozen=True, slots=True)
class CopyWork:
    """Copies ranges in tasks: `tasks.RangeWork`."""

    targets: Mapping[str, PartTarget]
    """Where the parts of each topic go."""

    def __call__(
        self, client: ReadClient, wanted: LogRange, attempt: int, patience: float
    ) -> Iterator[str]:
        """The parts of one range, as JSON."""
        target = self.targets[wanted.partition.topic]
        for part in copy_range(client, wanted, target, attempt, patience):
            yield part.to_json()


def copy_range(
    client: ReadClient,
    wanted: LogRange,
    target: PartTarget,
    attempt: int,
    patience: float = PATIENCE_SECONDS,
) -> Iterator[SegmentPart]:
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
