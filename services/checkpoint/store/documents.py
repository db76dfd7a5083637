"""The JSON documents in a store of checkpoints, each with its schema version and its sum.

Times are milliseconds since the epoch (UTC), sizes are bytes.

The sum is the SHA-256 of the file with zeros in place of the sum, so that any other byte of it is
found. The manifest of a copy, written last, also has the sums of the documents that the copy was
made by. Sums find damage and edits; who can write to the store can forge both.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, get_args

from breakglass.services.checkpoint.protocol.lineage import (
    CheckpointEvidence,
    GroupFlow,
    StoredValue,
)
from breakglass.services.errors import MalformedInput, UnsupportedSchema
from breakglass.services.model import TopicPartition, legal_topic
from breakglass.services.topic_backup.layout import MAX_INT64
from breakglass.services.topic_backup.manifest import first_fault

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA = 2
WITHOUT_SUMS = 1
"""The schema of documents that older releases wrote: nothing proves what is in them."""
MAX_BYTES = 64 * 1024 * 1024
"""Maximum size of a document: a manifest has a line for each file of a copy."""
MAX_PARTITION = 1_000_000
_PART = r"(?!\.\.?/|\.\.?$)[A-Za-z0-9._~-]{1,255}"
_FILE = re.compile(rf"{_PART}(?:/{_PART}){{0,5}}", re.ASCII)
"""Below the folder of a copy, and nowhere else."""
_NO_SUM = "0" * 64
_SUM = re.compile(rb'{\n "sum": "([0-9a-f]{64})"')
"""The beginning of every document with a sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summed(StoredValue):
    """A document as it was read, with the sum of its bytes."""

    sum: str = field(default="", compare=False)
    """Empty: the document was not read from a store, or an older release wrote it."""


class Level(StrEnum):
    """The consistency that a checkpoint guarantees."""

    VECTOR = "vector"
    """End offsets and group offsets as they were read; nothing is guaranteed."""
    VERIFIED = "verified"
    """Lowered by the records' lineage to the greatest consistent cut."""
    ORDERED = "ordered"
    """Offsets and ends read against the flow of records: nothing is lost, records may double."""
    COORDINATED = "coordinated"
    """Cut at the checkpoint id that every record carries."""
    TRANSACTIONAL = "transactional"
    """Lowered until every transaction is in the cut as a whole or not at all."""


class GroupPolicy(StrEnum):
    """What a checkpoint does about a group.

    A group that writes into the topics recovers records in transit over the cut in one of two ways,
    never in both (H6, H7).
    """

    EXACTLY_ONCE = "exactly-once"
    """The restore writes records after the cut whose cause is in the cut."""
    AT_LEAST_ONCE = "at-least-once"
    """The group resumes at lower offsets and writes the records again; readers skip duplicates."""
    READER = "reader"
    """The group writes nothing into the topics: it resumes at its offset, at most at the cut."""
    LEFT_OUT = "left-out"
    """Declared as not in the checkpoint: its offsets are not saved."""

    @property
    def writes(self) -> bool:
        """Whether records of the topics may be outputs of the group."""
        return self in (GroupPolicy.EXACTLY_ONCE, GroupPolicy.AT_LEAST_ONCE)


@dataclass(frozen=True, slots=True)
class NumberedPartition(StoredValue):
    """A partition by the number that it has in this checkpoint."""

    number: int
    """From 1, in the order of topics and partitions."""
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class TransactionFloors(StoredValue):
    """Where a transactional checkpoint begins to read transactions."""

    logs: Mapping[str, Mapping[int, int]]
    """Stable ends of internal topics, by topic and partition."""
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Committed offsets by group and the partition's number, read after `logs`."""
    stable: Mapping[int, int] = field(default_factory=dict)
    """Stable ends by the partition's number, read before `logs`."""


@dataclass(frozen=True, slots=True)
class TakeDocument(Summed):
    """What was requested."""

    id: int
    level: Level
    partitions: tuple[NumberedPartition, ...]
    request: str
    """Distinguishes a repeated request from another request for the same id."""
    created_at_ms: int
    cluster_id: str | None = None
    incarnation: str | None = None
    """Of the topics: after a restore, the same ids may occur again in another timeline (H12)."""
    groups: Mapping[str, GroupPolicy] = field(default_factory=dict)
    floors: Mapping[int, int] = field(default_factory=dict)
    """Log ends by the partition's number, read before the checkpoint wrote anything."""
    tool_version: str = "unknown"
    schema: int = SCHEMA
    external: tuple[str, ...] = ()
    """Topics that are written from outside alone: nothing in the checkpoint leads to a record."""
    transactions: TransactionFloors | None = None
    """Of a transactional checkpoint; its floors are stable ends. Later ones are in what is started.
    """
    flows: tuple[GroupFlow, ...] = ()
    """The topology of an ordered checkpoint."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of its topics, in order."""
        return tuple(sorted({partition.topic for partition in self.partitions}))

    @property
    def numbers(self) -> dict[TopicPartition, int]:
        """The number of each partition."""
        return {partition.topic_partition: partition.number for partition in self.partitions}

    @property
    def floors_of_logs(self) -> dict[TopicPartition, int]:
        """The floor of each partition."""
        return {one.topic_partition: self.floors[one.number] for one in self.partitions}

    @property
    def writing(self) -> Mapping[str, GroupPolicy]:
        """The groups that may write into the topics."""
        return {name: policy for name, policy in self.groups.items() if policy.writes}

    @property
    def readers(self) -> tuple[str, ...]:
        """The groups that only read."""
        return tuple(name for name, policy in self.groups.items() if policy is GroupPolicy.READER)


@dataclass(frozen=True, slots=True)
class StartedDocument(Summed):
    """The checkpoint was acknowledged."""

    at_ms: int
    positions: Mapping[int, int] = field(default_factory=dict)
    """By the partition's number: the marker of a coordinated checkpoint, else the log end.

    No record after it is in the checkpoint.
    """
    epochs: Mapping[int, int] = field(default_factory=dict)
    """By the partition's number: leader epoch of the offset before the position, if known."""
    schema: int = SCHEMA
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """By group and the partition's number: offsets that an ordered checkpoint read before ends."""
    transactions: TransactionFloors | None = None
    """Of a transactional checkpoint: floors that were read after the take's."""


@dataclass(frozen=True, slots=True)
class GroupCut(StoredValue):
    """A group in a checkpoint."""

    policy: GroupPolicy
    offsets: Mapping[int, int]
    """Where the group resumes after a restore, by partition number; only partitions it reads."""
    states: tuple[int, ...] = ()
    """Numbers of the partitions whose owners' saved states are in the checkpoint."""
    replayed: tuple[int, ...] = ()
    """Partitions whose owners resume without their state: their logs are kept from the start."""


@dataclass(frozen=True, slots=True)
class CutDocument(Summed):
    """What is in the checkpoint, decided once for all its partitions."""

    at_ms: int
    positions: Mapping[int, int]
    """The cut by the partition's number, exclusive."""
    groups: Mapping[str, GroupCut] = field(default_factory=dict)
    in_transit: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By the partition's number: offsets of the records in transit, restored after the cut."""
    rolled_back: Mapping[int, int] = field(default_factory=dict)
    """The number of offsets by which each log's end was lowered to be consistent."""
    epochs: Mapping[int, int] = field(default_factory=dict)
    """By the partition's number: the leader epoch of the offset before the cut, where known."""
    in_transit_epochs: Mapping[int, int] = field(default_factory=dict)
    """The leader epoch of the last record in transit."""
    schema: int = SCHEMA
    evidence: CheckpointEvidence | None = None
    """Who writes the topics and which groups are on them, as the logs showed it."""
    left_out: int | None = None
    """Transactions that a transactional checkpoint leaves out although they begin before the ends.
    """


@dataclass(frozen=True, slots=True)
class FailureDocument(Summed):
    """A copy, a partition or a checkpoint has failed permanently."""

    at_ms: int
    reason: str
    position: int | None = None
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class VerifiedDocument(Summed):
    """Every byte of the copies that represent the checkpoint was read and compared."""

    at_ms: int
    copies: Mapping[int, int]
    """The node whose copy was read, by the partition's number."""
    files: int
    size: int
    """Bytes that were read."""
    damage: Mapping[int, str] = field(default_factory=dict)
    """What is wrong, by the partition's number; empty: everything is as committed."""
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class DeletedDocument(Summed):
    """The checkpoint was deleted."""

    at_ms: int
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class OngoingDocument(Summed):
    """A node has begun to copy."""

    at_ms: int
    position: int | None = None
    """The checkpoint's position, exclusive; None: it is read from the log once markers exist."""
    tool_version: str = "unknown"
    machine: str | None = None
    """The machine that works as this node, see `machine.this_machine`; None: it is not known."""
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class StoredFile(StoredValue):
    """A file of a copy."""

    name: str
    """Relative to the folder of the copy's content."""
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ManifestDocument(Summed):
    """The copy is complete."""

    created_at_ms: int
    completed_at_ms: int
    position: int
    """The checkpoint's position, exclusive: the copy has no record at or after it."""
    start: int
    """The first offset that the copy can contain: the log start when it was copied."""
    records: int
    records_digest: str
    """Of the records alone: equal for two nodes' copies of a partition (scenario 3)."""
    files: tuple[StoredFile, ...]
    snapshot: str | None = None
    """The saved state in the copy; None: the partition's owner has none."""
    made_by: Mapping[str, str] = field(default_factory=dict)
    """The sums of the checkpoint's documents by which the copy was made, by kind: take, cut."""
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
    """The JSON of *document*, with its sum."""
    without = replace(document, sum=_NO_SUM)
    content = bytes(_adapters()[type(document)].dump_json(without, indent=1)) + b"\n"
    return content.replace(_NO_SUM.encode(), hashlib.sha256(content).hexdigest().encode(), 1)


def decode(kind: type[D], content: bytes, where: str) -> D:
    """The document of that kind in *content*.

    Raises:
        UnsupportedSchema: a newer release wrote it.
        MalformedInput: it is no such document, or not as it was written.
    """
    from pydantic import ValidationError

    _check_schema(content, where)
    try:
        found: D = _adapters()[kind].validate_json(content, strict=True)
    except ValidationError as error:
        raise MalformedInput(f"{where}: {first_fault(error)}; {_ANOTHER}") from None
    for reason in _implausible(found):
        raise MalformedInput(f"{where}: {reason}; {_ANOTHER}")
    return found


def _implausible(document: Document) -> Iterator[str]:
    """What in *document* is impossible: the document may have been forged."""
    if isinstance(document, ManifestDocument):
        names = [file.name for file in document.files]
        yield from (f"{name!r} is no file of a copy" for name in names if not _FILE.fullmatch(name))
        numbers = [document.position, document.start, document.records]
        yield from _no_offsets([*numbers, *(file.size for file in document.files)])
    elif isinstance(document, CutDocument):
        yield from _no_offsets(document.positions.values())
    elif isinstance(document, StartedDocument):
        yield from _no_offsets(document.positions.values())
        for offsets in document.offsets.values():
            yield from _no_offsets(offsets.values())
        yield from _impossible_floors(document.transactions)
    elif isinstance(document, OngoingDocument | FailureDocument):
        yield from _no_offsets([document.position or 0])
    elif isinstance(document, TakeDocument):
        yield from _no_offsets(document.floors.values())
        yield from _impossible_floors(document.transactions)
        for partition in document.partitions:
            if not legal_topic(partition.topic):
                yield f"{partition.topic!r} is no topic's name"
            if not 0 <= partition.partition <= MAX_PARTITION:
                yield f"no topic has a partition {partition.partition:,}"


def _impossible_floors(floors: TransactionFloors | None) -> Iterator[str]:
    if floors is not None:
        yield from _no_offsets(floors.stable.values())
        for offsets in (*floors.logs.values(), *floors.offsets.values()):
            yield from _no_offsets(offsets.values())


def _no_offsets(numbers: Iterable[int]) -> Iterator[str]:
    yield from (
        f"{number} is no offset or size" for number in numbers if not 0 <= number <= MAX_INT64
    )


_ANOTHER = "take the file from another copy of the store, or delete the checkpoint."


def _check_schema(content: bytes, where: str) -> None:
    try:
        found = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise MalformedInput(f"{where}: no JSON ({error}); {_ANOTHER}") from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if type(schema) is not int:
        raise MalformedInput(f"{where}: it has no schema version; {_ANOTHER}")
    if schema == WITHOUT_SUMS and "sum" not in found:
        return
    if schema not in (WITHOUT_SUMS, SCHEMA):
        raise UnsupportedSchema(
            f"{where} has schema {schema}, this release knows {SCHEMA}: use the release that "
            "wrote it."
        )
    match = _SUM.match(content)
    begin, end = match.span(1) if match is not None else (0, 0)
    without = content[:begin] + _NO_SUM.encode() + content[end:]
    if match is None or hashlib.sha256(without).hexdigest().encode() != match[1]:
        raise MalformedInput(f"{where}: it is not as it was written (SHA-256); {_ANOTHER}")


@cache
def _adapters() -> Mapping[type[Any], TypeAdapter[Any]]:
    from pydantic import TypeAdapter

    return {kind: TypeAdapter(kind) for kind in get_args(Document)}
