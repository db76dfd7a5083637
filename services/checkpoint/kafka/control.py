"""What a checkpoint writes into Kafka: headers of records, and the control topic.

The headers of every record of a participant: its checkpoint id, and its origin (H2).

They are text: ``breakglass-sn`` is the id; ``breakglass-origin`` is the input as
``TOPIC-ID:PARTITION:OFFSET:INDEX:GROUP``, empty for records from outside. The topic id identifies
the timeline, so offsets of a restored topic are never confused with offsets before the restore.

The metadata of a participant's committed offset: the checkpoint that its partition reached (H3).

The control topic: ids that were taken, the checkpoint of each partition, and restores.

It is one compacted partition next to the checkpointed topics. It is small, and always read as a
whole.

::

    take/N                       {"at_ms"}                      the coordinator, before any marker
    created/GROUP/TOPIC-ID/P     {"id", "position", "state",    the owner of P, before it processes
                                  "known"}
    restored/TOPIC-ID            {"id", "moved"}                a restore, after everything else
    held/TOPIC-ID/REQUEST        {"topic", "settings"}          a take that suspends retention
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

SN = "breakglass-sn"
ORIGIN = "breakglass-origin"
SOURCE = "breakglass-source"
"""The current address of an input that a restore has moved; the origin has the old address."""
MARKER = "breakglass-marker"
"""On the coordinator's own records: the id of the checkpoint that begins with the record."""
LARGEST = 2**63 - 1

Headers = Iterable[tuple[str | bytes, bytes | str | None]]


@dataclass(frozen=True, slots=True, order=True)
class RecordAddress:
    """A record's address; the topic's id distinguishes the same offset in another timeline."""

    topic_id: str
    """32 hexadecimal digits."""
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class RecordOrigin:
    """The input that led to a record, the record's number among its outputs, and the group."""

    place: RecordAddress
    index: int
    group: str

    def __str__(self) -> str:
        at = self.place
        return f"{at.topic_id}:{at.partition}:{at.offset}:{self.index}:{self.group}"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the headers of one record say."""

    sn: int
    cause: RecordOrigin | None
    """None: the record came from outside."""
    source: RecordOrigin | None = None
    """The input's current address; equals the cause unless a restore has moved the input."""
    marker: bool = False


def stamped(
    sn: int, cause: RecordOrigin, source: RecordOrigin | None = None
) -> list[tuple[str, bytes]]:
    """The headers of an output; *source* only where it differs from *cause*."""
    headers = [(SN, b"%d" % sn), (ORIGIN, str(cause).encode())]
    if source is not None and source != cause:
        headers.append((SOURCE, str(source).encode()))
    return headers


def marker_headers(id: int) -> list[tuple[str, bytes]]:
    """The headers of the coordinator's marker in a partition."""
    return [(SN, b"%d" % id), (ORIGIN, b""), (MARKER, b"%d" % id)]


def stamp_of(headers: Headers) -> Stamp | None:
    """The content of a record's headers; None if they are missing or malformed.

    If a header is repeated, the last value counts, as in Kafka's own clients.
    """
    found = {
        (name if isinstance(name, str) else name.decode("utf-8", "replace")): (
            value.encode() if isinstance(value, str) else value
        )
        for name, value in headers
    }
    sn, origin = _number(found.get(SN)), found.get(ORIGIN)
    if sn is None or origin is None:
        return None
    if not origin:
        return Stamp(sn, None, marker=MARKER in found)
    cause = _cause(origin)
    source = _cause(found[SOURCE]) if SOURCE in found else cause
    return None if cause is None or source is None else Stamp(sn, cause, source)


def _cause(value: bytes | None) -> RecordOrigin | None:
    parts = (value or b"").split(b":", 4)
    if len(parts) < 5 or len(parts[0]) != 32:
        return None
    numbers = [_number(part) for part in parts[1:4]]
    partition, offset, index = numbers
    if partition is None or offset is None or index is None:
        return None
    try:
        place = RecordAddress(parts[0].decode("ascii"), partition, offset)
        return RecordOrigin(place, index, parts[4].decode())
    except UnicodeDecodeError:
        return None


def _number(value: bytes | None) -> int | None:
    if value is None or not value.isdigit() or len(value) > 19:
        return None
    number = int(value)
    return number if number <= LARGEST else None


METADATA = "breakglass sn="
_METADATA = re.compile(rf"{METADATA}([0-9]{{1,19}})", re.ASCII)


def sn_of(metadata: str | None) -> int:
    """The id that was committed with an offset; 0 if none was committed."""
    # In a transaction, librdkafka appends the NUL of its C string to the metadata.
    match = _METADATA.fullmatch((metadata or "").rstrip("\0"))
    return int(match[1]) if match else 0


CONTROL_TOPIC = "breakglass-checkpoints"
SETTINGS = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}


@dataclass(frozen=True, slots=True)
class LastOf:
    """A writer's last record in a partition; a repeated output up to that record is a duplicate."""

    topic_id: str
    """The topic of the writer's input; the partition is the next field."""
    partition: int
    group: str
    offset: int
    index: int


@dataclass(frozen=True, slots=True)
class Created:
    """A partition's owner has reached a checkpoint."""

    group: str
    topic_id: str
    partition: int
    id: int
    position: int
    """The first record that the owner had not processed."""
    state: bytes | None = None
    """What the owner had saved; None: it saves nothing."""
    known: tuple[LastOf, ...] | None = None
    """The last record that it had seen of each writer; None: read them from the log."""

    @property
    def record(self) -> tuple[bytes, bytes]:
        key = f"created/{self.topic_id}/{self.partition}/{self.group}"
        saved = None if self.state is None else base64.b64encode(self.state).decode()
        known = None if self.known is None else [astuple(of) for of in self.known]
        body = {"id": self.id, "position": self.position, "state": saved, "known": known}
        return key.encode(), json.dumps(body).encode()


@dataclass(frozen=True, slots=True)
class MovedRecords:
    """Consecutive records that a restore has written at other offsets."""

    old: RecordAddress
    """The address of the first record."""
    new_offset: int
    count: int


def moved_rows(moved: Iterable[MovedRecords]) -> list[list[str | int]]:
    """*moved* as JSON."""
    return [
        [one.old.topic_id, one.old.partition, one.old.offset, one.new_offset, one.count]
        for one in moved
    ]


def moved_from(rows: Any) -> tuple[MovedRecords, ...]:
    """The moved records of `moved_rows`. Raises ValueError, TypeError: *rows* are others."""
    return tuple(
        MovedRecords(RecordAddress(str(topic), int(partition), int(offset)), int(new), int(count))
        for topic, partition, offset, new, count in rows
    )


@dataclass(frozen=True, slots=True)
class RestoredTopic:
    """A topic was restored completely from a checkpoint."""

    topic_id: str
    """Of the new topic."""
    id: int
    moved: Mapping[int, tuple[MovedRecords, ...]] = field(default_factory=dict)
    """By partition: the moved records that some group will read again."""

    @property
    def record(self) -> tuple[bytes, bytes]:
        moved = {number: moved_rows(some) for number, some in self.moved.items()}
        body = {"id": self.id, "moved": moved}
        return f"restored/{self.topic_id}".encode(), json.dumps(body).encode()

    def original(self, partition: int, offset: int) -> RecordAddress | None:
        """The address that the record at *offset* had before; None: no restore has moved it."""
        for records in self.moved.get(partition, ()):
            if records.new_offset <= offset < records.new_offset + records.count:
                shift = offset - records.new_offset
                return RecordAddress(
                    records.old.topic_id, records.old.partition, records.old.offset + shift
                )
        return None


@dataclass(frozen=True, slots=True)
class RetentionHold:
    """A take suspends a topic's retention."""

    topic_id: str
    request: str
    """The take's request: several takes may hold the same topic."""
    topic: str
    settings: Mapping[str, str | None] | None
    """The topic's own settings before the first hold; value None: not set. None: released."""

    @property
    def record(self) -> tuple[bytes, bytes]:
        settings = None if self.settings is None else dict(self.settings)
        body = {"topic": self.topic, "settings": settings}
        return f"held/{self.topic_id}/{self.request}".encode(), json.dumps(body).encode()


@dataclass(frozen=True, slots=True)
class Control:
    """The content of the control topic."""

    latest_id: int = 0
    """The greatest id that was ever taken, reached or restored."""
    created: Mapping[tuple[str, str, int], Created] = field(default_factory=dict)
    """By group, topic id and partition: the last checkpoint that the owner reached."""
    noted: Mapping[tuple[str, str, int], tuple[Created, ...]] = field(default_factory=dict)
    """By the same key: all requested notes in log order, not only the last."""
    restored: Mapping[str, RestoredTopic] = field(default_factory=dict)
    """By the topic's id."""
    held: Mapping[tuple[str, str], RetentionHold] = field(default_factory=dict)
    """By the topic's id and the request: the holds that were not released."""


def take_record(id: int, at_ms: int) -> tuple[bytes, bytes]:
    """The record that the coordinator writes before any marker."""
    return f"take/{id}".encode(), json.dumps({"at_ms": at_ms}).encode()


def control_of(
    records: Iterable[tuple[bytes | None, bytes | None]], since: int | None = None
) -> Control:
    """The state that *records*, by key and value in log order, describe.

    Unknown records are ignored, because any client with WRITE may produce to the topic. `noted`
    contains every note of an owner that reached checkpoint *since* or a later one.
    """
    latest = 0
    noted: dict[tuple[str, str, int], list[Created]] = {}
    created: dict[tuple[str, str, int], Created] = {}
    restored: dict[str, RestoredTopic] = {}
    held: dict[tuple[str, str], RetentionHold] = {}
    for key, value in records:
        found = _parsed(key, value)
        if isinstance(found, int):
            latest = max(latest, found)
        elif isinstance(found, Created):
            owner = found.group, found.topic_id, found.partition
            created[owner] = found
            latest = max(latest, found.id)
            if since is not None and found.id >= since:
                noted.setdefault(owner, []).append(found)
        elif isinstance(found, RestoredTopic):
            restored[found.topic_id] = found
            latest = max(latest, found.id)
        elif isinstance(found, RetentionHold):
            held[found.topic_id, found.request] = found
    kept = {key: one for key, one in held.items() if one.settings is not None}
    notes = {owner: tuple(some) for owner, some in noted.items()}
    return Control(latest, created, notes, restored, kept)


def _parsed(
    key: bytes | None, value: bytes | None
) -> int | Created | RestoredTopic | RetentionHold | None:
    try:
        kind, _, rest = (key or b"").decode().partition("/")
        body = json.loads(value or b"null")
        if kind == "take":
            return _id(int(rest))
        if kind == "created":
            topic_id, number, group = rest.split("/", 2)
            saved = body["state"]
            state = None if saved is None else base64.b64decode(saved, validate=True)
            rows = body.get("known")
            known = (
                None
                if rows is None
                else tuple(
                    LastOf(str(of), int(partition), str(name), int(offset), int(index))
                    for of, partition, name, offset, index in rows
                )
            )
            position = int(body["position"])
            return Created(group, topic_id, int(number), _id(body["id"]), position, state, known)
        if kind == "held":
            topic_id, request = rest.split("/", 1)
            held = body["settings"]
            settings = (
                None
                if held is None
                else {
                    str(name): None if value is None else str(value) for name, value in held.items()
                }
            )
            return RetentionHold(topic_id, request, str(body["topic"]), settings)
        if kind == "restored":
            moved = {int(number): moved_from(some) for number, some in body["moved"].items()}
            return RestoredTopic(rest, _id(body["id"]), moved)
        return None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _id(value: int) -> int:
    if not 0 < value < 2**63:
        raise ValueError(value)
    return value
