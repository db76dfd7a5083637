"""Builds and parses the names of a topic's files, and sorts them by number.

Numbers are padded (partition to 3 digits, offset to 10) but never cut, so names at offset 10^10
and above do not sort as text. Kafka Backup's readers ignore the names of our side files. Source:
SegmentUtils, PartitionUtils, OffsetUtils of itadventurer/kafka-backup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from breakglass.services.errors import DamagedBackup, UsageError

MANIFEST = "breakglass_manifest.json"

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1

_SEGMENT_FILE = re.compile(
    r"(segment_partition_([0-9]{1,20})_from_offset_([0-9]{1,20}))_(records|index)", re.ASCII
)
_PREFIX = re.compile(
    r"(?:run-[0-9]{10,19}-[A-Za-z0-9_-]{1,100}/)?"
    r"segment_partition_([0-9]{1,20})_from_offset_([0-9]{1,20})",
    re.ASCII,
)
"""A segment's name in the manifest: beside it, or in the folder of the run that wrote it."""
_PARTITION_INDEX = re.compile(r"index_partition_([0-9]{1,20})", re.ASCII)
_CONSUMER_OFFSETS = re.compile(r"consumer_offsets_partition_([0-9]{1,20})", re.ASCII)
_TOPIC = re.compile(r"([a-zA-Z0-9._-]{1,249})(?:~([1-9][0-9]{0,8}))?", re.ASCII)
"""The folder of a topic or of one generation; Kafka allows no tilde in a topic's name."""


def segment_prefix(partition: int, start_offset: int) -> str:
    """The name that a segment's two files share; the partition index contains it."""
    return f"segment_partition_{partition:03d}_from_offset_{start_offset:010d}"


def records_name(prefix: str) -> str:
    """The name of a segment's records file."""
    return f"{prefix}_records"


def segment_index_name(prefix: str) -> str:
    """The name of a segment's index."""
    return f"{prefix}_index"


def partition_index_name(partition: int) -> str:
    """The name of a partition's index."""
    return f"index_partition_{partition:03d}"


def consumer_offsets_name(partition: int) -> str:
    """The name of the file with the groups' offsets on a partition."""
    return f"consumer_offsets_partition_{partition:03d}"


def batch_log_name(partition: int) -> str:
    """The name of our side file with the state of each rescued batch."""
    return f"breakglass_batches_partition_{partition:03d}.jsonl"


def topic_path(root: Path, topic: str) -> Path:
    """The folder of *topic*.

    Raises UsageError: Kafka does not allow the name, so the path could be outside *root*.
    """
    return root / require_folder_name(topic)


def folder_name(topic: str, generation: int) -> str:
    """The name of a generation's folder: ``orders``, ``orders~2``."""
    return topic if generation == 1 else f"{topic}~{generation}"


def topic_of(folder: str) -> str:
    """The topic of a generation's folder: ``orders`` of ``orders~2``."""
    return folder.partition("~")[0]


def generations(names: Iterable[str]) -> dict[str, tuple[str, int]]:
    """The topic and generation of each name that can be a topic's folder.

    The folder with the topic's own name is the first generation; if earlier generations were moved
    aside (``TOPIC~1`` exists), it is the latest.
    """
    found: dict[str, tuple[str, int]] = {}
    numbers: dict[str, list[int]] = {}
    for match in filter(None, map(_TOPIC.fullmatch, names)):
        if match[2] is not None:
            numbers.setdefault(match[1], []).append(int(match[2]))
        found[match[0]] = (match[1], int(match[2] or 1))
    for topic, aside in numbers.items():
        if 1 in aside and topic in found:
            found[topic] = (topic, max(aside) + 1)
    return found


def is_folder_name(name: str) -> bool:
    """Whether *name* is the name of a topic's folder or of one generation."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def require_folder_name(topic: str) -> str:
    """Return *topic* if it is the name of a topic's folder or of one generation.

    Raises UsageError: as `topic_path`.
    """
    if not is_folder_name(topic):
        raise UsageError(f"{topic!r} is not a topic name that Kafka allows: check the spelling.")
    return topic


def segment_of(name: str) -> tuple[int, int, str] | None:
    """Partition, start offset and kind (records, index) of a segment's file; None for others."""
    match = _SEGMENT_FILE.fullmatch(name)
    return (int(match[2]), int(match[3]), match[4]) if match else None


def segment_place(prefix: str) -> tuple[int, int] | None:
    """The partition and start offset of the segment *prefix*, which may be in a run's folder."""
    match = _PREFIX.fullmatch(prefix)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment as found on disk."""

    partition: int
    start_offset: int
    """The offset in the name: no record of the segment is older."""
    prefix: str
    has_records: bool


@dataclass(slots=True)
class PartitionFiles:
    """The files of one partition."""

    segments: list[Segment] = field(default_factory=list)
    """Sorted by start offset."""
    partition_index: str | None = None
    consumer_offsets: str | None = None


def listing(names: Iterable[str]) -> dict[int, PartitionFiles]:
    """Group *names* by partition; other names are skipped.

    Raises DamagedBackup: two names stand for the same segment.
    """
    partitions: dict[int, PartitionFiles] = {}
    found: dict[str, dict[tuple[int, int], str]] = {"records": {}, "index": {}}
    for name in sorted(names):
        if match := _SEGMENT_FILE.fullmatch(name):
            key = int(match[2]), int(match[3])
            if key[0] <= MAX_INT32 and key[1] <= MAX_INT64:
                other = found[match[4]].setdefault(key, match[1])
                if other != match[1]:
                    reason = f"{other} is the same segment by another name"
                    raise DamagedBackup(match[1], 0, reason)
        elif match := _PARTITION_INDEX.fullmatch(name):
            partitions.setdefault(int(match[1]), PartitionFiles()).partition_index = name
        elif match := _CONSUMER_OFFSETS.fullmatch(name):
            partitions.setdefault(int(match[1]), PartitionFiles()).consumer_offsets = name
    for key in sorted(found["records"].keys() | found["index"].keys()):
        files = partitions.setdefault(key[0], PartitionFiles())
        records, index = found["records"].get(key), found["index"].get(key)
        if records and index and records != index:
            raise DamagedBackup(index, 0, f"{records} is the same segment by another name")
        prefix = records or index or ""
        files.segments.append(Segment(*key, prefix, has_records=records is not None))
    return dict(sorted(partitions.items()))
