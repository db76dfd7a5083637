"""Logs for the judge's tests, written down by hand."""

from breakglass.bookkeeping.judge import SavedRecord
from breakglass.bookkeeping.log_files import DiskReading, FolderLog, HeldRecord, Name, digest

ORDERS: Name = ("orders", 0)


def record(epoch: int, offset: int, key: str = "") -> HeldRecord:
    """A record whose contents are as unique as its place."""
    name = (key or f"k{epoch}-{offset}").encode()
    return HeldRecord(epoch, offset, name, digest(name, f"{epoch}:{offset}".encode()))


def log(*records: HeldRecord, start: int = 0, undecided: frozenset[int] = frozenset()) -> FolderLog:
    """The log that holds *records*; what is missing before the first one was compacted."""
    epochs: dict[int, int] = {}
    for entry in records:
        epochs.setdefault(entry.epoch, entry.offset if epochs else start)
    return FolderLog(
        start,
        max([entry.offset + 1 for entry in records], default=0),
        records,
        frozenset((entry.epoch, entry.offset) for entry in records),
        tuple(sorted(epochs.items())),
        undecided=undecided,
    )


def run(epoch: int, start: int, end: int) -> tuple[HeldRecord, ...]:
    """The records that one epoch wrote at ``[start, end)``."""
    return tuple(record(epoch, offset) for offset in range(start, end))


def saved(*records: HeldRecord) -> frozenset[SavedRecord]:
    """The same records, rescued."""
    return frozenset(SavedRecord(entry.offset, entry.key, entry.digest) for entry in records)


def reading(logs: dict[int, FolderLog], *readable: int) -> DiskReading:
    """Disks on which `ORDERS` is held so, of which some answer."""
    return DiskReading({ORDERS: logs}, {ORDERS: set(readable)})
