"""The progress and the result of a rescue, and whether the disk has room for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.errors import StorageError
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.rescue.spans import Share, Span
from breakglass.services.topic_backup.folder import storage_errors


@dataclass(frozen=True, slots=True)
class RescueProgress:
    """The progress of a rescue."""

    folder: Path
    partitions: int
    """Partitions of which something will be saved."""
    copied: int
    """Records that were copied."""
    at_most: int
    """Offsets to be copied; fewer records where a log was compacted."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What was saved from one replica, durable and committed."""

    broker: int
    spans: tuple[Span, ...]
    """The offsets that were asked for; all are saved unless the partition has a reason."""
    records: int
    """Data records written; transaction markers stand in the batch log beside them."""
    bytes: int
    """Bytes of the records files."""
    path: Path
    """Address for `breakglass backup cat`: folder of the backup, topic, partition."""


@dataclass(frozen=True, slots=True)
class RescuedPartition:
    """The result of a partition."""

    partition: TopicPartition
    designee: int
    saved: tuple[Saved, ...] = ()
    """The saved records, by replica."""
    reason: str = ""
    """Why something is missing; empty when nothing is."""

    @property
    def whole(self) -> bool:
        """All that the election cuts off readable replicas is saved."""
        return not self.reason

    @property
    def records(self) -> int:
        return sum(saved.records for saved in self.saved)


RESERVE_BYTES = 64 * 1024 * 1024
"""Bytes that always stay free: the journal may be on the same disk."""
MARGIN = 1.2
"""The factor by which a rescue may exceed its estimate."""
BYTES_A_RECORD = 64
"""Bytes of a record beside its content: its fixed fields and its index entry."""

FreeBytes = Callable[[Path], int]


def free_bytes(folder: Path) -> int:
    """Bytes that this user may still write at *folder*, which need not exist yet.

    Raises:
        StorageError: the file system cannot be asked.
    """
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    with storage_errors(str(existing)):
        return shutil.disk_usage(existing).free


def estimate(share: Share) -> int | Unknown:
    """About how many bytes *share* takes, if its batches are not compressed.

    The share's part of the log's size by offsets (DescribeLogDirs), and what the format adds.
    Unknown if the log's size is unknown.
    """
    replica = share.replica
    if isinstance(replica.log_dir, Unknown):
        return replica.log_dir
    size, start, end = replica.log_dir.size, replica.log_start, replica.log_end
    if isinstance(size, Unknown):
        return size
    if isinstance(start, Unknown):
        return start
    if isinstance(end, Unknown):
        return end
    part = share.offsets / max(1, end - start)
    return int(size * part) + share.offsets * BYTES_A_RECORD


def without_room(
    shares: Mapping[TopicPartition, tuple[Share, ...]], folder: Path, free: FreeBytes = free_bytes
) -> dict[TopicPartition, str]:
    """Partitions that will not fit into *folder*, with the reason; the earlier ones come first.

    For shares of unknown size only what the format adds is counted: `require_reserve` stops them
    before the disk is full.

    Raises:
        StorageError: the file system cannot be asked.
    """
    left = free(folder) - RESERVE_BYTES
    refused: dict[TopicPartition, str] = {}
    for partition, held in shares.items():
        needed = needed_bytes(held)
        if needed > left or left < 0:
            refused[partition] = (
                f"it needs about {_megabytes(needed)} and {_megabytes(max(0, left))} may be used "
                f"in {folder}: free space there or name another folder"
            )
        else:
            left -= needed
    return refused


def require_reserve(folder: Path, free: FreeBytes = free_bytes) -> None:
    """Raise StorageError when the reserve is touched: estimates fail, disks fill from elsewhere."""
    if free(folder) < RESERVE_BYTES:
        raise StorageError(
            f"less than {_megabytes(RESERVE_BYTES)} are left in {folder}: free space there or name "
            "another folder"
        )


def needed_bytes(shares: Iterable[Share]) -> int:
    """About how many bytes *shares* take; what the format adds, where a size is unknown."""
    sizes = ((share, estimate(share)) for share in shares)
    return int(
        sum(
            share.offsets * BYTES_A_RECORD if isinstance(size, Unknown) else size
            for share, size in sizes
        )
        * MARGIN
    )


def room(folder: Path, free: FreeBytes = free_bytes) -> int:
    """Bytes that a rescue may write in *folder*. Raises: StorageError."""
    return max(0, free(folder) - RESERVE_BYTES)


def _megabytes(size: int) -> str:
    return f"{-(-size // 1_000_000):,} MB"
