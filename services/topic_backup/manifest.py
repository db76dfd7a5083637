"""Reads and writes a topic's manifest, which commits a backup and stores what the format lacks.

The manifest is beside Kafka Backup's files, under a name that its readers ignore. It is written
last and atomically: a file that it does not name is not part of the backup.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from breakglass.services.clock import now_ms
from breakglass.services.errors import MalformedInput, UnsupportedSchema
from breakglass.services.topic_backup.folder import Folder, read_whole
from breakglass.services.topic_backup.layout import MAX_INT64, segment_place
from breakglass.services.topic_backup.summary import PartitionSummary

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

SCHEMA = 1
NO_SUM = b"0" * 64
MAX_PARTITIONS = 1_000_000
"""More partitions of a topic than any cluster has."""
MAX_MANIFEST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """The topic and cluster that a backup belongs to, as far as they are known."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    topic: str
    cluster_id: str | None = None
    topic_id: UUID | None = None
    partition_count: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    """The topic's own settings, without defaults."""
    origin: Mapping[str, str] = field(default_factory=dict)
    """How the backup was made, for people: the broker a tail was rescued from, the plan."""


@dataclass(frozen=True, slots=True)
class TopicManifest:
    """One commit of a topic's backup."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    schema: int
    tool_version: str
    commit: int
    """The number of this folder's commit, counted from 1."""
    committed_at_ms: int
    identity: TopicIdentity
    partitions: tuple[PartitionSummary, ...]
    """Sorted by number."""
    groups: Mapping[int, str] | None = None
    """The SHA-256 of each state of groups' offsets, by its time; None: of an older release."""
    sha256: str = field(default="", compare=False)
    """The hash of the file with `NO_SUM` in this place; empty in a file of an older release."""

    def partition(self, number: int) -> PartitionSummary | None:
        return next(
            (partition for partition in self.partitions if partition.partition == number), None
        )


def tool_version() -> str:
    """The version of this release; "unknown" if the package is not installed."""
    try:
        return metadata.version("breakglass")
    except metadata.PackageNotFoundError:
        return "unknown"


def read_manifest(folder: Folder) -> TopicManifest | None:
    """The last commit of *folder*; None without one, as in a backup of Kafka Backup.

    Raises:
        UnsupportedSchema: a newer release wrote the manifest.
        MalformedInput: the file is not a manifest, or has impossible values.
        StorageError: the file cannot be read, or is too large.
    """
    name = folder.manifest()
    if name is None:
        return None
    return decode(read_whole(folder, name, MAX_MANIFEST_BYTES), folder.where(name))


_MOVE_AWAY = "restore it from another copy, or move it away to read every record that is there."


def first_fault(error: ValidationError) -> str:
    """``files.0.size: Input should be...``; without a place if the whole document is wrong."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    return f"{path}: {first['msg']}" if path else str(first["msg"])


def decode(content: bytes, where: str) -> TopicManifest:
    """The manifest in *content*. Raises UnsupportedSchema, MalformedInput: as `read_manifest`."""
    from pydantic import ValidationError

    _check_schema(content, where)
    try:
        found = _adapter().validate_json(content, strict=True)
    except ValidationError as error:
        raise MalformedInput(f"{where}: {first_fault(error)}; {_MOVE_AWAY}") from None
    for reason in implausible(found):
        raise MalformedInput(f"{where}: {reason}; {_MOVE_AWAY}")
    if found.sha256:
        before, _, behind = content.rpartition(found.sha256.encode())
        if _sum(before + NO_SUM + behind) != found.sha256:
            raise MalformedInput(
                f"{where}: its bytes are not those that were committed (SHA-256); {_MOVE_AWAY}"
            )
    return found


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def implausible(manifest: TopicManifest) -> Iterator[str]:
    """The impossible values of *manifest*: paths outside the folder, numbers invalid in Kafka.

    A manifest may be forged, so this check comes before any use of it.
    """
    count = manifest.identity.partition_count
    if count is not None and not 0 <= count <= MAX_PARTITIONS:
        yield f"no topic has {count:,} partitions"
    numbers = [partition.partition for partition in manifest.partitions]
    if len(set(numbers)) < len(numbers):
        yield "a partition stands there twice"
    for part in manifest.partitions:
        yield from _implausible(part)


def _implausible(part: PartitionSummary) -> Iterator[str]:
    if not 0 <= part.partition < MAX_PARTITIONS:
        yield f"no topic has a partition {part.partition:,}"
    if part.next_offset is not None and not 0 <= part.next_offset <= MAX_INT64:
        yield f"an offset cannot be {part.next_offset}"
    latest = -1
    for segment in part.segments:
        if segment_place(segment.prefix) != (part.partition, segment.start_offset):
            yield f"{segment.prefix!r} is no name of a segment of partition {part.partition}"
        first, last = segment.first_offset, segment.last_offset
        numbers = (
            *(segment.start_offset, segment.records_bytes, segment.count, first or 0, last or 0),
            *(number for gap in segment.gaps for number in (gap.start, gap.end)),
            *segment.missing.values(),
        )
        if not all(0 <= number <= MAX_INT64 for number in numbers):
            yield f"{segment.prefix} has a number that cannot be an offset, a size or a count"
        rises = (
            first is None
            or last is None
            or (segment.count <= last - first + 1 and latest < first <= last)
        )
        if (first is None) != (segment.count == 0) or not rises:
            yield f"the offsets of {segment.prefix} do not rise"
        latest = segment.start_offset if last is None else last


def _check_schema(content: bytes, where: str) -> None:
    try:
        found = json.loads(content.decode())
    except json.JSONDecodeError as error:
        spot = f"line {error.lineno}, column {error.colno}"
        raise MalformedInput(f"{where}, {spot}: {error.msg}; {_MOVE_AWAY}") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise MalformedInput(f"{where}: no JSON ({error}); {_MOVE_AWAY}") from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if type(schema) is not int:
        raise MalformedInput(f"{where}: it has no schema version; {_MOVE_AWAY}")
    if schema != SCHEMA:
        raise UnsupportedSchema(
            f"{where} has schema {schema}, this release knows {SCHEMA}: use the release that "
            "wrote it."
        )


def next_commit(before: TopicManifest | None) -> int:
    """The number of the commit after *before*; the first number if *before* is None."""
    return before.commit + 1 if before else 1


def says_more(
    before: TopicManifest | None, identity: TopicIdentity, changed: Mapping[int, PartitionSummary]
) -> bool:
    """Whether a commit of the *changed* partitions would differ from *before*."""
    return before is None or (
        before.identity != identity
        or any(before.partition(number) != one for number, one in changed.items())
    )


def next_manifest(
    before: TopicManifest | None, identity: TopicIdentity, changed: Mapping[int, PartitionSummary]
) -> TopicManifest:
    """The commit after *before*, in which *changed* replaces partitions."""
    partitions = (
        {partition.partition: partition for partition in before.partitions} if before else {}
    )
    partitions.update(changed)
    return TopicManifest(
        schema=SCHEMA,
        tool_version=tool_version(),
        commit=next_commit(before),
        committed_at_ms=now_ms(),
        identity=identity,
        partitions=tuple(partitions[number] for number in sorted(partitions)),
        groups=before.groups if before else {},
    )


def write_manifest(folder: Folder, manifest: TopicManifest) -> None:
    """Commit: write *manifest*, atomically and durably.

    Raises:
        AlreadyRunning: another process has made that commit.
        StorageError: the manifest cannot be written.
    """
    unsummed = replace(manifest, sha256=NO_SUM.decode())
    content = _adapter().dump_json(unsummed, indent=1) + b"\n"
    # The sum is the last value.
    before, _, behind = content.rpartition(NO_SUM)
    folder.commit(manifest.commit, before + _sum(content).encode() + behind)


@cache
def _adapter() -> TypeAdapter[TopicManifest]:
    from pydantic import TypeAdapter

    return TypeAdapter(TopicManifest)
