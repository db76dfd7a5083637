"""The names of a topic's files, both ways, and their order: by number, never as text.

Numbers are padded (partition 3, offset 10 digits) but never cut, and readers take any number of
digits, so past offset 10^10 names do not sort as text. Our own side files have names that no
pattern of the original matches. Source: SegmentUtils, PartitionUtils, OffsetUtils of
itadventurer/kafka-backup.
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
"""As manifests name segments: beside them, or in the folder of the run that wrote them."""
_PARTITION_INDEX = re.compile(r"index_partition_([0-9]{1,20})", re.ASCII)
_CONSUMER_OFFSETS = re.compile(r"consumer_offsets_partition_([0-9]{1,20})", re.ASCII)
_TOPIC = re.compile(r"([a-zA-Z0-9._-]{1,249})(?:~([1-9][0-9]{0,8}))?", re.ASCII)
"""A topic's folder, or that of another generation of it: no topic's name has a tilde."""


def segment_prefix(partition: int, start_offset: int) -> str:
    """The name that a segment's two files share; it stands in the partition index."""
    return f"segment_partition_{partition:03d}_from_offset_{start_offset:010d}"


def records_name(prefix: str) -> str:
    """The file with a segment's records."""
    return f"{prefix}_records"


def segment_index_name(prefix: str) -> str:
    """The file with a segment's index."""
    return f"{prefix}_index"


def partition_index_name(partition: int) -> str:
    """The file with the index of a partition."""
    return f"index_partition_{partition:03d}"


def consumer_offsets_name(partition: int) -> str:
    """The file with the groups' offsets on a partition."""
    return f"consumer_offsets_partition_{partition:03d}"


def batch_log_name(partition: int) -> str:
    """Our side file with the state of each rescued batch."""
    return f"breakglass_batches_partition_{partition:03d}.jsonl"


def topic_path(root: Path, topic: str) -> Path:
    """The folder of *topic*.

    Raises:
        UsageError: the name is none that Kafka allows, so it could lead anywhere.
    """
    return root / require_folder_name(topic)


def folder_name(topic: str, generation: int) -> str:
    """As the folder of a generation is called: ``orders``, ``orders~2``."""
    return topic if generation == 1 else f"{topic}~{generation}"


def generations(names: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Topic and generation of each folder among *names* that can be a topic's.

    The folder with the topic's own name is the first generation; where earlier ones were set
    aside (there is a ``TOPIC~1``), it is the newest.
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
    """Whether *name* is one of a topic or of a generation of it."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def require_folder_name(topic: str) -> str:
    """The name, if it is one of a topic or of a generation of it.

    Raises:
        UsageError: as `topic_path`.
    """
    if not is_folder_name(topic):
        raise UsageError(f"{topic!r} is not a topic name that Kafka allows: check the spelling.")
    return topic


def segment_of(name: str) -> tuple[int, int, str] | None:
    """Partition, start offset and kind (records, index) of a segment's file; None for others."""
    match = _SEGMENT_FILE.fullmatch(name)
    return (int(match[2]), int(match[3]), match[4]) if match else None


def segment_place(prefix: str) -> tuple[int, int] | None:
    """Partition and start offset of the segment called *prefix*, in a run's folder perhaps."""
    match = _PREFIX.fullmatch(prefix)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment as found on disk."""

    partition: int
    start_offset: int
    """From its name: no record of the segment is older."""
    prefix: str
    has_records: bool
    has_index: bool


@dataclass(slots=True)
class PartitionFiles:
    """What a topic's folder holds of one partition."""

    segments: list[Segment] = field(default_factory=list)
    """By start offset."""
    partition_index: str | None = None
    consumer_offsets: str | None = None


@dataclass(slots=True)
class _Found:
    records: dict[tuple[int, int], str] = field(default_factory=dict)
    indexes: dict[tuple[int, int], str] = field(default_factory=dict)


def listing(names: Iterable[str]) -> dict[int, PartitionFiles]:
    """The partitions that *names* belong to; other names are passed over.

    Raises:
        DamagedBackup: two names stand for one segment.
    """
    partitions: dict[int, PartitionFiles] = {}
    found = _Found()
    for name in sorted(names):
        _place(name, partitions, found)
    for key in sorted(found.records.keys() | found.indexes.keys()):
        files = partitions.setdefault(key[0], PartitionFiles())
        files.segments.append(_segment(key, found))
    return dict(sorted(partitions.items()))


def _place(name: str, partitions: dict[int, PartitionFiles], found: _Found) -> None:
    if match := _SEGMENT_FILE.fullmatch(name):
        key = int(match[2]), int(match[3])
        kind = found.records if match[4] == "records" else found.indexes
        if key[0] <= MAX_INT32 and key[1] <= MAX_INT64:
            _claim(kind, key, match[1])
    elif match := _PARTITION_INDEX.fullmatch(name):
        partitions.setdefault(int(match[1]), PartitionFiles()).partition_index = name
    elif match := _CONSUMER_OFFSETS.fullmatch(name):
        partitions.setdefault(int(match[1]), PartitionFiles()).consumer_offsets = name


def _claim(kind: dict[tuple[int, int], str], key: tuple[int, int], prefix: str) -> None:
    other = kind.setdefault(key, prefix)
    if other != prefix:
        raise DamagedBackup(prefix, 0, f"{other} is the same segment by another name")


def _segment(key: tuple[int, int], found: _Found) -> Segment:
    records, index = found.records.get(key), found.indexes.get(key)
    if records and index and records != index:
        raise DamagedBackup(index, 0, f"{records} is the same segment by another name")
    prefix = records or index or ""
    return Segment(*key, prefix, has_records=records is not None, has_index=index is not None)
