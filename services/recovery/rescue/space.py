"""Whether what has to be saved fits on the disk, asked before anything is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from breakglass.services.errors import StorageError
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.rescue.spans import Share
from breakglass.services.topic_backup.folder import storage_errors

RESERVE_BYTES = 64 * 1024 * 1024
"""Left free whatever happens: the journal may lie on the same disk."""
MARGIN = 1.2
"""How much more may come than was estimated."""
BYTES_A_RECORD = 64
"""What a record takes beside its content: its fixed fields and its index entry."""

FreeBytes = Callable[[Path], int]


def free_bytes(folder: Path) -> int:
    """What this user may still write at *folder*, which need not be there yet.

    Raises:
        StorageError: that file system cannot be asked.
    """
    existing = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    with storage_errors(str(existing)):
        return shutil.disk_usage(existing).free


def estimate(share: Share) -> int | Unknown:
    """About how many bytes *share* takes, if its batches are not compressed.

    Its part of the log's size by offsets (DescribeLogDirs), and what the format adds. Unknown
    where the size is.
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

    Of shares of unknown size only what the format adds is counted: `require_reserve` stops them
    in time.

    Raises:
        StorageError: the file system cannot be asked.
    """
    left = free(folder) - RESERVE_BYTES
    refused: dict[TopicPartition, str] = {}
    for partition, held in shares.items():
        needed = int(sum(_at_least(one) for one in held) * MARGIN)
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


def _at_least(share: Share) -> int:
    found = estimate(share)
    return share.offsets * BYTES_A_RECORD if isinstance(found, Unknown) else found


def _megabytes(size: int) -> str:
    return f"{-(-size // 1_000_000):,} MB"
