"""Opens topic backups by the address that an operator types: ``URL/TOPIC/PARTITION``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.folder import Folder
from breakglass.services.topic_backup.layout import listing
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.mending import MendedTopic, mend
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.record import MAX_RECORD_BYTES
from breakglass.services.topic_backup.segment_index import Reindexed, reindex, segments_of
from breakglass.services.topic_backup.store.blobs import Key
from breakglass.services.topic_backup.store.form import has_manifest
from breakglass.services.topic_backup.store.store import Store, open_store
from breakglass.services.topic_backup.summary import PartitionSummary

_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)


def partition_of(
    address: str, max_record_bytes: int = MAX_RECORD_BYTES, key: Key | None = None
) -> PartitionReader:
    """A reader of the partition at *address*.

    Raises:
        UsageError: there is no backup at *address*, or it is encrypted and *key* is None.
        MalformedInput, UnsupportedSchema: the topic's manifest cannot be read.
        DamagedBackup: a committed segment is missing.
    """
    topic, last = _split(address)
    if not _NUMBER.fullmatch(last):
        raise UsageError(f"{address} does not end with a partition: add its number, as in /0.")
    folder, number = _topic_folder(topic, key), int(last)
    manifest = read_manifest(folder)
    held = _partitions(folder)
    if number not in held:
        raise UsageError(
            f"{folder.where()} holds nothing of partition {number}, only of: {_list(held)}."
        )
    committed = None
    if manifest is not None:
        nothing = PartitionSummary(number, None, ())
        committed = manifest.partition(number) or nothing
    return PartitionReader(folder, number, committed, max_record_bytes=max_record_bytes)


@dataclass(frozen=True, slots=True)
class IndexesAt:
    """The indexes of a topic, or of one partition, by its address."""

    folder: Folder
    topic: str
    partitions: tuple[int, ...]

    def segments(self) -> dict[int, tuple[str, ...]]:
        return {number: segments_of(self.folder, number) for number in self.partitions}

    def rebuild(self) -> tuple[Reindexed, ...]:
        """Rebuild the indexes.

        Raises:
            AlreadyRunning: a backup is writing to the folder.
            StorageError: an index cannot be written.
        """
        with self.folder.lock():
            return tuple(
                result for number in self.partitions for result in reindex(self.folder, number)
            )


def indexes_at(address: str, key: Key | None = None) -> IndexesAt:
    """The indexes of the topic at *address*, or of the one partition that it names.

    Raises UsageError: there is no backup at *address*, or it is encrypted and *key* is None.
    """
    topic, last = _split(address)
    one = None
    if _NUMBER.fullmatch(last):
        # A topic's name may be a number, like a partition.
        store, name = _place(address, key)
        names = store.names(name)
        one = None if has_manifest(names) or listing(names) else int(last)
    folder = _topic_folder(address if one is None else topic, key)
    held = _partitions(folder)
    numbers = [number for number in held if one is None or number == one]
    if not numbers:
        raise UsageError(
            f"{folder.where()} holds nothing of that, only of partitions: {_list(held)}."
        )
    _, name = _split(address if one is None else topic)
    return IndexesAt(folder, name, tuple(numbers))


def mend_at(address: str, to: Path, key: Key | None = None) -> MendedTopic:
    """Write a mended copy of the topic at *address* below *to*; the original stays unchanged.

    Raises: as `mend`; UsageError if there is no backup at *address*.
    """
    _, name = _split(address)
    return mend(_topic_folder(address, key), name, to)


def _split(address: str) -> tuple[str, str]:
    before, slash, last = address.rstrip("/").rpartition("/")
    return (before or slash or "."), last


def _place(address: str, key: Key | None) -> tuple[Store, str]:
    root, name = _split(address)
    return open_store(root, key), name


def _topic_folder(address: str, key: Key | None) -> Folder:
    """The existing folder of a topic.

    Raises UsageError: there is no folder at *address*, or its name is not valid for a topic.
    """
    store, name = _place(address, key)
    if not store.names(name):
        raise UsageError(
            f"{store.where(name)} is no folder: name the backup's folder and the topic."
        )
    return store.folder(name)


def _partitions(folder: Folder) -> list[int]:
    manifest = None if folder.original else read_manifest(folder)
    committed = {partition.partition for partition in manifest.partitions} if manifest else set()
    return sorted(committed.union(listing(folder.names())))


def _list(partitions: Iterable[int]) -> str:
    return ", ".join(map(str, partitions)) or "none"
