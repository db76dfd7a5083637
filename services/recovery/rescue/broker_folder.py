"""What a broker's log folder says of itself: cluster, broker, partitions. Only ever read.

A folder of ``log.dirs`` holds ``meta.properties``, one folder for each replica, and ``.lock``,
which its broker holds while it runs. The folder of one replica will do too.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors

_REPLICA = re.compile(r"([a-zA-Z0-9._-]{1,249})-([0-9]{1,10})", re.ASCII)
_ASIDE = re.compile(r".+\.[0-9a-f]{32}-(delete|future|stray)", re.ASCII)
"""Replicas that are being deleted, moved, or are nobody's."""
METADATA_LOG = "__cluster_metadata"
META, LOCK, PARTITION_METADATA = "meta.properties", ".lock", "partition.metadata"
CLEANED = "cleaner-offset-checkpoint"
MAX_FILE_BYTES = 1024 * 1024
_FLOCK = struct.Struct("hhqqi")
"""The system's ``struct flock``: type, whence, start, length, process."""


@dataclass(frozen=True, slots=True)
class ReplicaFolder:
    """One replica's folder."""

    path: Path
    partition: TopicPartition
    topic_id: UUID | None
    """None where it does not say."""
    compacted: bool
    """The cleaner was at work there, so that offsets may be missing."""

    @property
    def size(self) -> int:
        """Bytes of its segments."""
        with storage_errors(str(self.path)):
            return sum(file.stat().st_size for file in self.path.glob("*.log"))


@dataclass(frozen=True, slots=True)
class BrokerFolder:
    """A folder of ``log.dirs``, or the part of it that was named."""

    path: Path
    cluster_id: str | None
    broker: int | None
    replicas: tuple[ReplicaFolder, ...]
    """By partition."""
    aside: tuple[str, ...]
    """Folders that are no replicas of use: being deleted, moved, or the controllers' own log."""

    @property
    def name(self) -> str:
        """What a backup of it is called: ``b3``."""
        return "log" if self.broker is None else f"b{self.broker}"


def read_broker_folder(path: Path) -> BrokerFolder:
    """What is in *path*, a folder of ``log.dirs`` or of one replica.

    Raises:
        UsageError: it is neither.
        StorageError: it cannot be read.
    """
    path = path.absolute()
    if not path.is_dir():
        raise UsageError(f"{path} is no folder: name a broker's log folder, one of its log.dirs.")
    alone = _REPLICA.fullmatch(path.name) and any(path.glob("*.log"))
    root = path.parent if alone else path
    properties = _properties(root / META)
    cleaned = _cleaned(root / CLEANED)
    with storage_errors(str(path)):
        folders = [path] if alone else sorted(one for one in path.iterdir() if one.is_dir())
    replicas = tuple(sorted(_replicas(folders, cleaned), key=lambda one: one.partition))
    if not replicas:
        raise UsageError(f"{path} holds no partitions: name a broker's folder of log.dirs.")
    known = {one.path for one in replicas}
    aside = tuple(one.name for one in folders if one not in known and _set_aside(one.name))
    broker = properties.get("node.id", properties.get("broker.id", ""))
    return BrokerFolder(
        path,
        properties.get("cluster.id") or None,
        int(broker) if broker.isdecimal() else None,
        replicas,
        aside,
    )


def running_broker(path: Path) -> int | None:
    """The process that holds the lock of the log folder at *path*; None where nobody does.

    Brokers lock the file as Java does, by ``fcntl``; asking takes no lock and writes nothing.
    A process of another container may be 0.
    """
    for folder in (path, path.parent):
        try:
            descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, wanted))
        except OSError:
            continue
        finally:
            os.close(descriptor)
        if kind != fcntl.F_UNLCK:
            return int(process)
    return None


def _replicas(folders: list[Path], cleaned: frozenset[TopicPartition]) -> Iterator[ReplicaFolder]:
    for folder in folders:
        match = _REPLICA.fullmatch(folder.name)
        if match is None or match[1] == METADATA_LOG or _ASIDE.fullmatch(folder.name):
            continue
        if any(folder.glob("*.log")):
            partition = TopicPartition(match[1], int(match[2]))
            topic_id = _topic_id(_properties(folder / PARTITION_METADATA, ":"))
            yield ReplicaFolder(folder, partition, topic_id, partition in cleaned)


def _set_aside(name: str) -> bool:
    return bool(_ASIDE.fullmatch(name)) or name.startswith(f"{METADATA_LOG}-")


def _properties(path: Path, between: str = "=") -> dict[str, str]:
    """``name=value`` lines; none where the file cannot be read."""
    pairs = (line.partition(between) for line in _text(path).splitlines())
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def _cleaned(path: Path) -> frozenset[TopicPartition]:
    """Partitions that the cleaner has been at: ``topic partition offset`` lines."""
    words = [line.split() for line in _text(path).splitlines()]
    return frozenset(
        TopicPartition(one[0], int(one[1])) for one in words if len(one) == 3 and one[1].isdecimal()
    )


def _text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _topic_id(metadata: Mapping[str, str]) -> UUID | None:
    """The id in Kafka's own form, 16 bytes in URL-safe base64 without padding."""
    try:
        return UUID(bytes=base64.urlsafe_b64decode(metadata.get("topic_id", "") + "=="))
    except (ValueError, binascii.Error):
        return None
