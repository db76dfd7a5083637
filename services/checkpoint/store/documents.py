"""What the files of a store of checkpoints say: JSON, each with the version of its schema.

Times are in milliseconds since the epoch (UTC), sizes in bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, get_args

from breakglass.services.errors import MalformedInput, UnsupportedSchema
from breakglass.services.topic_backup.layout import MAX_INT64

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = 1
MAX_BYTES = 64 * 1024 * 1024
"""Of a document: a manifest has a line for each file of a copy."""
MAX_PARTITION = 1_000_000
_PART = r"(?!\.\.?/|\.\.?$)[A-Za-z0-9._~-]{1,255}"
_FILE = re.compile(rf"{_PART}(?:/{_PART}){{0,5}}", re.ASCII)
"""Below the folder of a copy, and nowhere else."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_STRICT: Mapping[str, Any] = {"extra": "forbid"}


class Level(StrEnum):
    """What is promised about a checkpoint's consistency."""

    VECTOR = "vector"
    """End offsets and group offsets as they were read; nothing is promised."""
    VERIFIED = "verified"
    """Lowered by the records' lineage to the greatest consistent cut."""
    COORDINATED = "coordinated"
    """Cut at the checkpoint id that every record carries."""


class GroupPolicy(StrEnum):
    """How a group gets back what is in transit over the cut: one of them, never both (H6, H7)."""

    EXACTLY_ONCE = "exactly-once"
    """Records behind the cut whose cause is in it are restored behind it."""
    AT_LEAST_ONCE = "at-least-once"
    """The group begins at lower offsets and writes them again; readers pass over the double."""


@dataclass(frozen=True, slots=True)
class NumberedPartition:
    """A partition by the number that it has in this checkpoint."""

    __pydantic_config__: ClassVar = _STRICT

    number: int
    """From 1, in the order of topics and partitions."""
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class TakeDocument:
    """What was asked for."""

    __pydantic_config__: ClassVar = _STRICT

    id: int
    level: Level
    partitions: tuple[NumberedPartition, ...]
    request: str
    """Tells a request that is sent again from another one for the same id."""
    created_at_ms: int
    cluster_id: str | None = None
    incarnation: str | None = None
    """Of the topics: after a restore the same ids may come again, of another timeline (H12)."""
    groups: Mapping[str, GroupPolicy] = field(default_factory=dict)
    """Consumer groups that get offsets with it, each with its policy."""
    floors: Mapping[int, int] = field(default_factory=dict)
    """Ends of the logs, by the partition's number, as they were before anything of it began."""
    tool_version: str = "unknown"
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class StartedDocument:
    """The checkpoint was acknowledged."""

    __pydantic_config__: ClassVar = _STRICT

    at_ms: int
    positions: Mapping[int, int] = field(default_factory=dict)
    """By the partition's number: no record behind it is in the checkpoint. Of a coordinated one
    that of the marker, else the end of the log."""
    epochs: Mapping[int, int] = field(default_factory=dict)
    """Leader epoch that wrote the offset before it, by the partition's number, where known."""
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class GroupCut:
    """A group in a checkpoint."""

    __pydantic_config__: ClassVar = _STRICT

    policy: GroupPolicy
    offsets: Mapping[int, int]
    """Where it goes on after a restore, by the partition's number; only partitions it reads."""
    states: tuple[int, ...] = ()
    """Partitions, by number, whose owners' saved states are in the checkpoint."""
    replayed: tuple[int, ...] = ()
    """Those of owners that save theirs and go on without: from their logs' start, kept whole."""


@dataclass(frozen=True, slots=True)
class CutDocument:
    """What is in the checkpoint, decided once for all its partitions."""

    __pydantic_config__: ClassVar = _STRICT

    at_ms: int
    positions: Mapping[int, int]
    """Of the cut, by the partition's number, exclusive."""
    groups: Mapping[str, GroupCut] = field(default_factory=dict)
    in_transit: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Offsets of records behind the cut that are restored behind it, by the partition's number."""
    rolled_back: Mapping[int, int] = field(default_factory=dict)
    """By how many offsets a vector was lowered to be consistent."""
    epochs: Mapping[int, int] = field(default_factory=dict)
    """Leader epoch that wrote the offset before the cut, by the partition's number, where known."""
    in_transit_epochs: Mapping[int, int] = field(default_factory=dict)
    """That which wrote the last record in transit."""
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class FailureDocument:
    """A copy, a partition or a checkpoint has failed, for good."""

    __pydantic_config__: ClassVar = _STRICT

    at_ms: int
    reason: str
    position: int | None = None
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class VerifiedDocument:
    """Every byte of the copies that stand for the checkpoint was read and compared."""

    __pydantic_config__: ClassVar = _STRICT

    at_ms: int
    copies: Mapping[int, int]
    """The node whose copy was read, by the partition's number."""
    files: int
    size: int
    """Bytes that were read."""
    damage: Mapping[int, str] = field(default_factory=dict)
    """What is wrong, by the partition's number; nothing: all is as it was committed."""
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class DeletedDocument:
    """The checkpoint was deleted."""

    __pydantic_config__: ClassVar = _STRICT

    at_ms: int
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class OngoingDocument:
    """A node has begun to copy."""

    __pydantic_config__: ClassVar = _STRICT

    at_ms: int
    position: int | None = None
    """Of the checkpoint, exclusive; None: it is read off the log later, when markers are there."""
    tool_version: str = "unknown"
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a copy."""

    __pydantic_config__: ClassVar = _STRICT

    name: str
    """Below the copy's folder of contents."""
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ManifestDocument:
    """The copy is complete."""

    __pydantic_config__: ClassVar = _STRICT

    created_at_ms: int
    completed_at_ms: int
    position: int
    """Of the checkpoint, exclusive: no record at it or behind it is in the copy."""
    start: int
    """The first offset that the copy may hold: the log's start when it was copied."""
    records: int
    records_digest: str
    """Of the records alone: two nodes' copies of a partition have the same (scenario 3)."""
    files: tuple[StoredFile, ...]
    snapshot: str | None = None
    """Which saved state is in it; None: the partition's owner has none."""
    cluster_id: str | None = None
    incarnation: str | None = None
    tool_version: str = "unknown"
    schema: int = SCHEMA


Document: TypeAlias = (
    TakeDocument
    | StartedDocument
    | CutDocument
    | FailureDocument
    | VerifiedDocument
    | DeletedDocument
    | OngoingDocument
    | ManifestDocument
)
D = TypeVar("D", bound=Document)


def encode(document: Document) -> bytes:
    """The JSON of *document*."""
    return bytes(_adapters()[type(document)].dump_json(document, indent=1)) + b"\n"


def decode(kind: type[D], content: bytes, where: str) -> D:
    """The document of that kind in *content*.

    Raises:
        UnsupportedSchema: a newer release wrote it.
        MalformedInput: it is none.
    """
    from pydantic import ValidationError

    _check_schema(content, where)
    try:
        found: D = _adapters()[kind].validate_json(content, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise MalformedInput(f"{where}: {path}: {first['msg']}; {_ANOTHER}") from None
    for reason in _implausible(found):
        raise MalformedInput(f"{where}: {reason}; {_ANOTHER}")
    return found


def _implausible(document: Document) -> Iterator[str]:
    """What *document* says that cannot be: it may be made to mislead."""
    if isinstance(document, ManifestDocument):
        names = [one.name for one in document.files]
        yield from (f"{one!r} is no file of a copy" for one in names if not _FILE.fullmatch(one))
        numbers = [document.position, document.start, document.records]
        yield from _no_offsets([*numbers, *(one.size for one in document.files)])
    elif isinstance(document, CutDocument | StartedDocument):
        yield from _no_offsets(document.positions.values())
    elif isinstance(document, OngoingDocument | FailureDocument):
        yield from _no_offsets([document.position or 0])
    elif isinstance(document, TakeDocument):
        yield from _no_offsets(document.floors.values())
        for one in document.partitions:
            if not _TOPIC.fullmatch(one.topic) or one.topic in (".", ".."):
                yield f"{one.topic!r} is no topic's name"
            if not 0 <= one.partition <= MAX_PARTITION:
                yield f"no topic has a partition {one.partition:,}"


def _no_offsets(numbers: Iterable[int]) -> Iterator[str]:
    yield from (f"{one} is no offset or size" for one in numbers if not 0 <= one <= MAX_INT64)


_ANOTHER = "take the file from another copy of the store, or delete the checkpoint."


def _check_schema(content: bytes, where: str) -> None:
    try:
        found = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise MalformedInput(f"{where}: no JSON ({error}); {_ANOTHER}") from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if type(schema) is not int:
        raise MalformedInput(f"{where}: it has no schema version; {_ANOTHER}")
    if schema != SCHEMA:
        raise UnsupportedSchema(
            f"{where} has schema {schema}, this release knows {SCHEMA}: use the release that "
            "wrote it."
        )


@cache
def _adapters() -> Mapping[type[Any], TypeAdapter[Any]]:
    from pydantic import TypeAdapter

    return {kind: TypeAdapter(kind) for kind in get_args(Document)}
