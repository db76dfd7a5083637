"""Backups by the address an operator types: ``FOLDER/TOPIC/PARTITION``, or the same as file URL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from services.errors import UsageError
from services.topic_backup.folder import LocalFolder
from services.topic_backup.layout import listing, topic_path
from services.topic_backup.manifest import read_manifest
from services.topic_backup.reader import PartitionReader
from services.topic_backup.record import MAX_RECORD_BYTES
from services.topic_backup.reindex import Reindexed, reindex
from services.topic_backup.summary import PartitionSummary

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)


def local_path(address: str) -> Path:
    """The path that *address* stands for: a path, or a URL of scheme ``file``.

    Raises:
        UsageError: a URL of another scheme or another machine.
    """
    if not _SCHEME.match(address):
        return Path(address)
    url = urlsplit(address)
    if url.scheme.lower() != "file" or url.netloc not in ("", "localhost"):
        raise UsageError(f"{address} is not on this machine: name a folder or a file:/// URL.")
    return Path(unquote(url.path))


def topic_folder(path: Path) -> LocalFolder:
    """The existing folder of a topic.

    Raises:
        UsageError: there is none at *path*, or its name is no topic's.
    """
    folder = topic_path(path.parent, path.name)
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder: name the backup's folder and the topic.")
    return LocalFolder(folder)


def partition_of(address: str, max_record_bytes: int = MAX_RECORD_BYTES) -> PartitionReader:
    """A reader of the partition at *address*.

    Raises:
        UsageError: nothing is backed up there.
        MalformedInput, UnsupportedSchema: the topic's manifest cannot be read.
        DamagedBackup: a committed segment is missing.
    """
    path = local_path(address)
    if not _NUMBER.fullmatch(path.name):
        raise UsageError(f"{address} does not end with a partition: add its number, as in /0.")
    folder, number = topic_folder(path.parent), int(path.name)
    held = listing(folder.names())
    if number not in held:
        raise UsageError(
            f"{folder.where()} holds nothing of partition {number}, only of: {_list(held)}."
        )
    manifest = read_manifest(folder)
    committed = None
    if manifest is not None:
        nothing = PartitionSummary(number, None, ())
        committed = manifest.partition(number) or nothing
    return PartitionReader(folder, number, committed, max_record_bytes=max_record_bytes)


def reindex_all(address: str) -> tuple[Reindexed, ...]:
    """Rebuild the indexes of the topic at *address*, or of its one partition named there.

    Raises:
        UsageError: nothing is backed up there.
        AlreadyRunning: a backup writes there.
        StorageError: an index cannot be written.
    """
    path = local_path(address)
    one = int(path.name) if _NUMBER.fullmatch(path.name) and not _holds_segments(path) else None
    folder = topic_folder(path if one is None else path.parent)
    held = listing(folder.names())
    numbers = [number for number in held if one is None or number == one]
    if not numbers:
        raise UsageError(
            f"{folder.where()} holds nothing of that, only of partitions: {_list(held)}."
        )
    with folder.lock():
        return tuple(result for number in numbers for result in reindex(folder, number))


def _holds_segments(path: Path) -> bool:
    """Whether *path* is a topic's folder, for a topic's name may be a number."""
    return path.is_dir() and bool(listing(LocalFolder(path).names()))


def _list(partitions: Iterable[int]) -> str:
    return ", ".join(map(str, partitions)) or "none"
