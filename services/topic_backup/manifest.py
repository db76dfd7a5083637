"""The side manifest of a topic: the only commit of a backup, and what the format has no room for.

It lies beside the files of the original under a name that its readers pass over. It is written
last and atomically: what it does not name was not backed up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from breakglass.services.clock import now_ms
from breakglass.services.errors import MalformedInput, UnsupportedSchema
from breakglass.services.topic_backup.folder import Folder, read_whole
from breakglass.services.topic_backup.layout import MAX_INT64, segment_place
from breakglass.services.topic_backup.summary import PartitionSummary, SegmentSummary

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = 1
MAX_PARTITIONS = 1_000_000
"""Of a topic: more than any cluster carries."""
MAX_MANIFEST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """Which topic of which cluster a backup is of, as far as it is known."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    topic: str
    cluster_id: str | None = None
    topic_id: UUID | None = None
    partition_count: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    """The topic's own settings, without defaults."""
    origin: Mapping[str, str] = field(default_factory=dict)
    """How the backup came to be, for people: the broker a tail was rescued from, the plan."""


@dataclass(frozen=True, slots=True)
class TopicManifest:
    """One commit of a topic's backup."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    schema: int
    tool_version: str
    commit: int
    """Counts the commits of this folder from 1."""
    committed_at_ms: int
    identity: TopicIdentity
    partitions: tuple[PartitionSummary, ...]
    """By number."""

    def partition(self, number: int) -> PartitionSummary | None:
        """What was committed of that partition."""
        return next((one for one in self.partitions if one.partition == number), None)


def tool_version() -> str:
    """The version of this release; "unknown" when it runs without being installed."""
    try:
        return metadata.version("breakglass")
    except metadata.PackageNotFoundError:
        return "unknown"


def read_manifest(folder: Folder) -> TopicManifest | None:
    """The last commit of *folder*; None where there is none, as in a backup of the original's.

    Raises:
        UnsupportedSchema: a newer release wrote it.
        MalformedInput: it is no manifest, or says what cannot be.
        StorageError: it cannot be read, or is larger than any.
    """
    name = folder.manifest()
    if name is None:
        return None
    return decode(read_whole(folder, name, MAX_MANIFEST_BYTES), folder.where(name))


_MOVE_AWAY = "restore it from another copy, or move it away to read every record that is there."


def decode(content: bytes, where: str) -> TopicManifest:
    """The manifest in *content*.

    Raises:
        UnsupportedSchema, MalformedInput: as `read_manifest`.
    """
    from pydantic import ValidationError

    _check_schema(content, where)
    try:
        found = _adapter().validate_json(content, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise MalformedInput(f"{where}: {path}: {first['msg']}; {_MOVE_AWAY}") from None
    for reason in implausible(found):
        raise MalformedInput(f"{where}: {reason}; {_MOVE_AWAY}")
    return found


def implausible(manifest: TopicManifest) -> Iterator[str]:
    """What *manifest* says that cannot be: names that lead elsewhere, numbers Kafka does not have.

    A manifest may be made to mislead; what it says is believed nowhere before this.
    """
    count = manifest.identity.partition_count
    if count is not None and not 0 <= count <= MAX_PARTITIONS:
        yield f"no topic has {count:,} partitions"
    numbers = [one.partition for one in manifest.partitions]
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
    for one in part.segments:
        if segment_place(one.prefix) != (part.partition, one.start_offset):
            yield f"{one.prefix!r} is no name of a segment of partition {part.partition}"
        if not all(0 <= number <= MAX_INT64 for number in _numbers(one)):
            yield f"{one.prefix} has a number that cannot be an offset, a size or a count"
        if (one.first_offset is None) != (one.count == 0) or not _rises(one, latest):
            yield f"the offsets of {one.prefix} do not rise"
        latest = one.start_offset if one.last_offset is None else one.last_offset


def _numbers(one: SegmentSummary) -> Iterator[int]:
    yield from (one.start_offset, one.records_bytes, one.count)
    yield from (number for number in (one.first_offset, one.last_offset) if number is not None)
    for gap in one.gaps:
        yield from (gap.start, gap.end)
    yield from one.missing.values()


def _rises(one: SegmentSummary, latest: int) -> bool:
    if one.first_offset is None or one.last_offset is None:
        return True
    fits = one.count <= one.last_offset - one.first_offset + 1
    return fits and latest < one.first_offset <= one.last_offset


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
    """The number of the commit after *before*; of the first one where there is none."""
    return before.commit + 1 if before else 1


def says_more(
    before: TopicManifest | None,
    identity: TopicIdentity,
    changed: Mapping[int, PartitionSummary],
) -> bool:
    """Whether a commit of *changed* partitions would say anything that *before* does not."""
    return before is None or (
        before.identity != identity
        or any(before.partition(number) != one for number, one in changed.items())
    )


def next_manifest(
    before: TopicManifest | None,
    identity: TopicIdentity,
    changed: Mapping[int, PartitionSummary],
) -> TopicManifest:
    """The commit after *before*: its partitions, but for those of *changed*."""
    partitions = {one.partition: one for one in before.partitions} if before else {}
    partitions.update(changed)
    return TopicManifest(
        schema=SCHEMA,
        tool_version=tool_version(),
        commit=next_commit(before),
        committed_at_ms=now_ms(),
        identity=identity,
        partitions=tuple(partitions[number] for number in sorted(partitions)),
    )


def write_manifest(folder: Folder, manifest: TopicManifest) -> None:
    """Commit: put *manifest* in place, atomically and durably.

    Raises:
        AlreadyRunning: another process has made that commit.
        StorageError: it cannot be put in place.
    """
    folder.commit(manifest.commit, _adapter().dump_json(manifest, indent=1) + b"\n")


@cache
def _adapter() -> TypeAdapter[TopicManifest]:
    from pydantic import TypeAdapter

    return TypeAdapter(TopicManifest)
