"""Every replica of a cluster, read from the log directories of all its brokers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from breakglass.bookkeeping.log_files import DamagedLog, FolderLog, read_folder

NAME = re.compile(r"^(.+)-(\d+)$")
METADATA = "__cluster_metadata"
TRIES = 5
"""A cleaner or a deletion may take a file away between its listing and its reading."""

Name = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class DiskReading:
    """What the disks held at one moment."""

    logs: Mapping[Name, Mapping[int, FolderLog]]
    """By partition, then by broker; brokers without a folder are left out."""
    readable: Mapping[Name, Collection[int]]
    """By partition, the brokers whose replica answered at that moment."""

    def held(self, name: Name) -> Mapping[int, FolderLog]:
        """The replicas of a partition."""
        return self.logs.get(name, {})

    def readable_logs(self, name: Name) -> dict[int, FolderLog]:
        """The replicas of a partition that answered."""
        answering = self.readable.get(name, ())
        return {broker: log for broker, log in self.held(name).items() if broker in answering}


def read_disks(
    log_dirs: Mapping[int, Sequence[Path]], awake: Collection[int], failed: Collection[Path] = ()
) -> DiskReading:
    """Read every folder of every broker.

    A replica counts as readable if its broker is *awake* and its directory is not *failed*.

    Raises:
        DamagedLog: a folder holds what no broker writes.
    """
    logs: dict[Name, dict[int, FolderLog]] = {}
    readable: dict[Name, set[int]] = {}
    for broker, folders in log_dirs.items():
        for log_dir in folders:
            for name, folder in _partitions(log_dir):
                logs.setdefault(name, {})[broker] = _settled(folder)
                if broker in awake and log_dir not in failed:
                    readable.setdefault(name, set()).add(broker)
    return DiskReading(logs, readable)


def _partitions(log_dir: Path) -> Iterator[tuple[Name, Path]]:
    for folder in sorted(log_dir.glob("*-*")) if log_dir.is_dir() else ():
        found = NAME.match(folder.name)
        if folder.is_dir() and found and found[1] != METADATA and "." not in folder.name:
            yield (found[1], int(found[2])), folder


def _settled(folder: Path) -> FolderLog:
    """The log in *folder*, read again where its files changed while they were read."""
    for _ in range(TRIES - 1):
        try:
            # Name, size and time of change of every file that a log is read from.
            beside = folder.parent / "log-start-offset-checkpoint"
            files = [*sorted(folder.glob("*.log")), folder / "leader-epoch-checkpoint", beside]
            stats = [(path.name, path.stat()) for path in files if path.exists()]
            return _read_once(
                folder, tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
            )
        except (FileNotFoundError, DamagedLog):
            continue
    return read_folder(folder)


@lru_cache(maxsize=4096)
def _read_once(folder: Path, signature: object) -> FolderLog:
    """The log in *folder*, read again only when its *signature* is another."""
    del signature
    return read_folder(folder)


def divergence(log: FolderLog, other: FolderLog) -> int:
    """The first offset at which two logs are of different epochs, or where the first ends."""
    end = min(log.end, other.end)
    start = max(log.start, other.start)
    bounds = sorted({first for _, first in (*log.epochs, *other.epochs) if start < first < end})
    for offset in (start, *bounds):
        if offset < end and log.epoch_at(offset) != other.epoch_at(offset):
            return offset
    return end
