"""The progress and the result of a rescue, and whether the disk has room for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
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


Shares = Mapping[TopicPartition, tuple[Share, ...]]


@dataclass(frozen=True, slots=True)
class UnsavedOffsets:
    """Offsets of one replica that a budget has no room for."""

    broker: int
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        offsets = ", ".join(f"{span.start:,}-{span.end - 1:,}" for span in self.spans)
        return f"offsets {offsets} of b{self.broker}"


def newest_within(
    shares: Shares, budget: int
) -> tuple[
    dict[TopicPartition, tuple[Share, ...]], dict[TopicPartition, tuple[UnsavedOffsets, ...]]
]:
    """What of *shares* takes about *budget* bytes, and what is left out of each partition.

    Of each log the newest records are kept: a power cut takes those that were written last. So
    where not all can be saved, what a log begins with is left out, and named (R26).
    No partition is left out for the sake of a larger one: each gets as many bytes as any other,
    or all that it needs.
    """
    sizes = {partition: needed_bytes(held) for partition, held in shares.items()}
    most = _each(list(sizes.values()), max(0, budget))
    kept: dict[TopicPartition, tuple[Share, ...]] = {}
    left: dict[TopicPartition, tuple[UnsavedOffsets, ...]] = {}
    for partition, held in shares.items():
        if sizes[partition] <= most:
            kept[partition] = held
            continue
        cut = [_newest(share, most / sizes[partition]) for share in held]
        taken = tuple([share for share, _ in cut if share.spans])
        left[partition] = tuple([out for _, out in cut if out.spans])
        if taken:
            kept[partition] = taken
    return kept, left


def _each(sizes: list[int], budget: int) -> float:
    """The most that each of *sizes* may take, so that all take no more than *budget*."""
    left, number = budget, len(sizes)
    for size in sorted(sizes):
        if size * number > left:
            return left / number
        left -= size
        number -= 1
    return max(sizes, default=0)


def _newest(share: Share, part: float) -> tuple[Share, UnsavedOffsets]:
    wanted = int(share.offsets * part)
    kept: list[Span] = []
    out: list[Span] = []
    for span in reversed(share.spans):
        start = max(span.start, span.end - wanted)
        wanted -= span.end - start
        if start < span.end:
            kept.append(Span(start, span.end))
        if span.start < start:
            out.append(Span(span.start, start))
    return replace(share, spans=tuple(kept[::-1])), UnsavedOffsets(
        share.replica.broker, tuple(out[::-1])
    )
