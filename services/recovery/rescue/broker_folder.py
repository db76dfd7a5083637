"""Reads a broker's log folder: its cluster, broker and partitions.

A folder of ``log.dirs`` has ``meta.properties``, one folder for each replica, and ``.lock``, which
the broker locks while it runs. The folder of a single replica is accepted, too.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from breakglass.services.divergence.source import UnreadableRange
from breakglass.services.errors import BreakglassError, DamagedBackup, Refused, UsageError
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.record_batches import Record
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.batch_log import BatchState, read_batch_log
from breakglass.services.topic_backup.folder import LocalFolder, storage_errors
from breakglass.services.topic_backup.layout import MANIFEST
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.summary import PartitionSummary

_REPLICA = re.compile(r"([a-zA-Z0-9._-]{1,249})-([0-9]{1,10})", re.ASCII)
_ASIDE = re.compile(r".+\.[0-9a-f]{32}-(delete|future|stray)", re.ASCII)
"""Folders of replicas that are being deleted or moved, or are stray."""
LOG = "log:"
"""How the address of a log folder begins."""
METADATA_LOG = "__cluster_metadata"
META, LOCK, PARTITION_METADATA = "meta.properties", ".lock", "partition.metadata"
CLEANED, STARTS = "cleaner-offset-checkpoint", "log-start-offset-checkpoint"
REACHED = ("replication-offset-checkpoint", "recovery-point-offset-checkpoint")
"""The high watermarks, and the offsets before which all was flushed."""
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
"""A broker that finds it in a log directory takes the indexes there as they are."""
EPOCHS = "leader-epoch-checkpoint"
MAX_FILE_BYTES = 1024 * 1024
OFFSET_DIGITS = 20
_FLOCK = struct.Struct("hhqqi")
"""The system's ``struct flock``: type, whence, start, length, process."""


@dataclass(frozen=True, slots=True)
class ReplicaFolder:
    """The folder of a replica."""

    path: Path
    partition: TopicPartition
    topic_id: UUID | None
    """The topic id; None where the folder does not say."""
    compacted: bool
    """The log cleaner has compacted the log, so offsets may be missing."""
    log_start: int = 0
    """Records before this offset were deleted, though their segment may still be there."""
    reached: int = 0
    """The highest offset that checkpoints and snapshots name: a log that ends before it lost its
    tail, in a power cut or by a truncation."""

    def hole(self, start: int, end: int) -> UnreadableRange | None:
        """The damage that no batch has ``[start, end)``, unless compaction may have removed it."""
        if start >= end or self.compacted:
            return None
        return UnreadableRange(start, end, "no batch holds them: a segment is missing")

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
    """The replicas, sorted by partition."""
    aside: tuple[str, ...]
    """Folders that are not rescued: being deleted, moved, or the controllers' own log."""

    @property
    def written_ms(self) -> int:
        """When a file in it was written last: a running broker writes checkpoints all the time."""
        roots = {self.path, *(replica.path.parent for replica in self.replicas)}
        files = [file for root in roots for file in root.glob("*-checkpoint")]
        files += [file for replica in self.replicas for file in replica.path.glob("*.log")]
        with storage_errors(str(self.path)):
            return max((file.stat().st_mtime_ns // 1_000_000 for file in files), default=0)

    @property
    def name(self) -> str:
        """The name of the folder's backup: ``b3``."""
        return "log" if self.broker is None else f"b{self.broker}"


def read_broker_folder(path: Path) -> BrokerFolder:
    """The contents of *path*, a folder of ``log.dirs`` or of a replica.

    Raises:
        UsageError: *path* is neither.
        StorageError: *path* cannot be read.
    """
    path = path.absolute()
    if not path.is_dir():
        raise UsageError(f"{path} is no folder: name a broker's log folder, one of its log.dirs.")
    alone = _REPLICA.fullmatch(path.name) and any(path.glob("*.log"))
    root = path.parent if alone else path
    properties = _properties(root / META)
    cleaned, starts, *reached = (
        checkpoint_offsets(root / name) for name in (CLEANED, STARTS, *REACHED)
    )
    with storage_errors(str(path)):
        folders = [path] if alone else sorted(child for child in path.iterdir() if child.is_dir())
    replicas = tuple(
        sorted(_replicas(folders, cleaned, starts, reached), key=lambda replica: replica.partition)
    )
    if not replicas:
        raise UsageError(f"{path} holds no partitions: name a broker's folder of log.dirs.")
    known = {replica.path for replica in replicas}
    aside = tuple(
        folder.name
        for folder in folders
        if folder not in known
        and (bool(_ASIDE.fullmatch(folder.name)) or folder.name.startswith(f"{METADATA_LOG}-"))
    )
    broker = properties.get("node.id", properties.get("broker.id", ""))
    return BrokerFolder(
        path,
        properties.get("cluster.id") or None,
        int(broker) if _is_offset(broker) else None,
        replicas,
        aside,
    )


def open_log_folder(address: str, *, while_running: bool = False) -> BrokerFolder:
    """The log folder at *address*, ``log:DIR``, if no broker writes to it.

    Raises:
        UsageError: the folder is not a log folder.
        Refused: its broker is running, and *while_running* does not allow that.
    """
    if not address.startswith(LOG) or address == LOG:
        raise UsageError(f"--source {address!r} is not written log:DIR: write it so.")
    path = Path(address.removeprefix(LOG))
    folder = read_broker_folder(path)
    process = running_broker(path)
    if process is not None and not while_running:
        raise Refused(
            f"a broker runs on {path} (process {process} holds its .lock), so its logs change "
            "while they are read: stop it first, rescue through it by --plan, or add "
            "--while-running"
        )
    return folder


def running_broker(path: Path) -> int | None:
    """The process that holds the lock of the log folder at *path*; None: no process has it.

    Java locks the file by ``fcntl``; this query takes no lock and writes nothing. The process id
    is 0 for a process of another container.
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


def _replicas(
    folders: list[Path],
    cleaned: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    reached: Sequence[Mapping[TopicPartition, int]],
) -> Iterator[ReplicaFolder]:
    for folder in folders:
        match = _REPLICA.fullmatch(folder.name)
        if match is None or match[1] == METADATA_LOG or _ASIDE.fullmatch(folder.name):
            continue
        if any(folder.glob("*.log")):
            partition = TopicPartition(match[1], int(match[2]))
            topic_id = topic_id_in(folder)
            epochs = (line.split() for line in _text(folder / EPOCHS).splitlines())
            named = [
                *(offsets.get(partition, 0) for offsets in reached),
                *(int(words[1]) for words in epochs if len(words) == 2 and _is_offset(words[1])),
                *(int(file.stem) for file in folder.glob("*.snapshot") if _is_offset(file.stem)),
            ]
            compacted, start = partition in cleaned, starts.get(partition, 0)
            yield ReplicaFolder(folder, partition, topic_id, compacted, start, max(named))


def _properties(path: Path, between: str = "=") -> dict[str, str]:
    """The ``name=value`` lines; none if the file cannot be read."""
    pairs = (line.partition(between) for line in _text(path).splitlines())
    return {name.strip(): value.strip() for name, found, value in pairs if found}


def checkpoint_offsets(path: Path) -> dict[TopicPartition, int]:
    """The offsets of a checkpoint file, whose lines are ``topic partition offset``."""
    words = [line.split() for line in _text(path).splitlines()]
    return {
        TopicPartition(parts[0], int(parts[1])): int(parts[2])
        for parts in words
        if len(parts) == 3 and _is_offset(parts[1]) and _is_offset(parts[2])
    }


def _is_offset(text: str) -> bool:
    """Whether *text* is an offset, or the number of a partition, as brokers write it."""
    return len(text) <= OFFSET_DIGITS and text.isascii() and text.isdecimal()


def _text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def topic_id_in(folder: Path) -> UUID | None:
    """The id in the partition.metadata of a replica: 16 bytes in URL-safe base64, no padding."""
    metadata = _properties(folder / PARTITION_METADATA, ":")
    try:
        return UUID(bytes=base64.urlsafe_b64decode(metadata.get("topic_id", "") + "=="))
    except (ValueError, binascii.Error):
        return None


@dataclass(frozen=True, slots=True)
class RescuedPartitionFolder:
    """One rescue's folder of one partition."""

    topic_folder: Path
    partition: TopicPartition

    def records(self, start: int, end: int | None = None) -> Iterator[Record]:
        """The records with offsets of ``[start, end)``, as they were committed.

        Raises:
            StorageError, DamagedBackup: the rescue cannot be read, or is not as it was committed.
        """
        held = self._held()
        if held is None:
            return
        reader = PartitionReader(self._folder, self.partition.partition, held)
        yield from reader.records(start, end)
        for out in reader.damages:
            raise DamagedBackup(out.file, out.position, out.reason)

    def states(self, start: int) -> Iterator[BatchState]:
        """The states of the batches from *start* on; the first batch may begin before.

        Raises:
            StorageError, DamagedBackup: the rescue cannot be read.
        """
        held = self._held()
        if held is not None and held.batch_log is not None:
            states = read_batch_log(self._folder, self.partition.partition, held.batch_log)
            yield from (state for state in states if state.last_offset >= start)

    def markers(self, start: int, end: int) -> Iterator[BatchState]:
        """The transaction markers of ``[start, end)``. Raises as `states`."""
        for state in self.states(start):
            if state.commit is not None and start <= state.base_offset < end:
                yield state

    @property
    def _folder(self) -> LocalFolder:
        return LocalFolder(self.topic_folder)

    def _held(self) -> PartitionSummary | None:
        manifest = read_manifest(self._folder)
        return manifest.partition(self.partition.partition) if manifest else None


Rescues = Mapping[TopicPartition, Sequence[RescuedPartitionFolder]]


DEPTHS = ("", "*/", "*/*/", "*/*/*/", "*/*/*/*/")
"""A topic's folder lies at ``cluster/time/broker/topic`` below the folder of all rescues."""


def rescues_in(
    roots: Sequence[Path],
    states: Mapping[TopicPartition, PartitionState],
    unread: Callable[[Path, BreakglassError], object] = lambda _folder, _error: None,
) -> Rescues:
    """The folders of rescues below *roots* for the partitions of *states*, by topic id.

    One whose manifest cannot be read counts as none, and hides no other: *unread* gets it.
    """
    found: dict[TopicPartition, list[RescuedPartitionFolder]] = {}
    manifests = {path for root in roots for depth in DEPTHS for path in root.glob(depth + MANIFEST)}
    for topic in sorted({manifest.parent for manifest in manifests}):
        try:
            manifest = read_manifest(LocalFolder(topic))
        except BreakglassError as error:
            unread(topic, error)
            continue
        if manifest is None:
            continue
        for held in manifest.partitions:
            partition = TopicPartition(manifest.identity.topic, held.partition)
            state = states.get(partition)
            if state is not None and manifest.identity.topic_id == state.topic_id:
                rescued = RescuedPartitionFolder(topic, partition)
                found.setdefault(partition, []).append(rescued)
    return found
