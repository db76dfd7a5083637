"""A segment that a task has written beside the others, not yet in its place.

Tasks are retried and run twice, so each attempt writes files of its own, under names that no
reader looks at and that the next writer removes. Those of one attempt are put in place.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self

from breakglass.services.topic_backup.folder import TEMPORARY
from breakglass.services.topic_backup.layout import (
    records_name,
    segment_index_name,
    segment_of,
    segment_prefix,
)


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """One such segment, whole and durable. It has one record or more."""

    partition: int
    records: str
    """Name of its records file in the topic's folder."""
    index: str
    """Name of its index."""
    count: int
    first_offset: int
    last_offset: int
    first_timestamp: int
    """Milliseconds since 1970, as the record has it; the same below."""
    last_timestamp: int
    max_timestamp: int
    records_bytes: int
    """Magic byte included."""
    sha256: str
    """Of the records file."""
    records_crc: int | None = None
    """CRC-32 of the records without the magic byte; None where nobody asked for it."""

    def to_json(self) -> str:
        """The part as it comes back from a task."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` made."""
        return cls(**json.loads(text))


def part_names(run: str, attempt: int, partition: int, number: int) -> tuple[str, str]:
    """Names of the records file and the index of one part; *attempt* is unique within *run*."""
    before, after = TEMPORARY
    stem = f"{before}{run}-{attempt}-{partition}-{number}"
    return f"{stem}-records{after}", f"{stem}-index{after}"


def part_index_of(name: str, run: str) -> int | None:
    """The partition whose part of *run* the index *name* is; None for any other file."""
    before, after = TEMPORARY
    start = f"{before}{run}-"
    if not (name.startswith(start) and name.endswith(f"-index{after}")):
        return None
    return int(name.removeprefix(start).split("-")[1])


def run_folder(commit: int, token: str) -> str:
    """How the folders of one job begin whose files keep their names; made for that *commit*."""
    return f"run-{commit:010d}-{token}"


def run_part_names(run: str, attempt: int, partition: int, first_offset: int) -> tuple[str, str]:
    """Names of a part that it keeps as a segment, where nothing is renamed."""
    prefix = f"{run}-{attempt}/{segment_prefix(partition, first_offset)}"
    return records_name(prefix), segment_index_name(prefix)


def run_place_of(name: str, run: str) -> tuple[int, int] | None:
    """Partition and first offset of the index *name* of *run*; None for any other file."""
    folder, _, file = name.partition("/")
    if not folder.startswith(f"{run}-"):
        return None
    segment = segment_of(file)
    return segment[:2] if segment is not None and segment[2] == "index" else None
