"""The control topic: which ids were taken, who has come to which, and what was restored.

One compacted partition beside the topics themselves. It is small, and always read as a whole.

::

    take/N                       {"at_ms"}                      the coordinator, before any marker
    created/GROUP/TOPIC-ID/P     {"id", "position", "state",    the owner of P, before it processes
                                  "known"}
    restored/TOPIC-ID            {"id", "moved"}                a restore, after everything else
    held/TOPIC-ID/REQUEST        {"topic", "settings"}          a take that holds retention back
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any

from breakglass.services.checkpoint.kafka.stamps import RecordAddress

CONTROL_TOPIC = "breakglass-checkpoints"
SETTINGS = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}


@dataclass(frozen=True, slots=True)
class LastOf:
    """The last record of one writer in a partition; what does not lie behind it is there twice."""

    topic_id: str
    """With the partition: the writer's input."""
    partition: int
    group: str
    """That the writer is a member of."""
    offset: int
    index: int


@dataclass(frozen=True, slots=True)
class Created:
    """A partition's owner has come to a checkpoint."""

    group: str
    topic_id: str
    partition: int
    id: int
    position: int
    """Of the first record that it has not processed when it did."""
    state: bytes | None = None
    """What it had saved then; None: it saves nothing."""
    known: tuple[LastOf, ...] | None = None
    """What it had seen then of each writer; None: it is read off the log before the position."""

    @property
    def record(self) -> tuple[bytes, bytes]:
        """Key and value."""
        key = f"created/{self.topic_id}/{self.partition}/{self.group}"
        saved = None if self.state is None else base64.b64encode(self.state).decode()
        known = None if self.known is None else [astuple(one) for one in self.known]
        body = {"id": self.id, "position": self.position, "state": saved, "known": known}
        return key.encode(), json.dumps(body).encode()


@dataclass(frozen=True, slots=True)
class MovedRecords:
    """Records that a restore has put elsewhere, one behind the other."""

    old: RecordAddress
    """Of the first of them."""
    new_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class RestoredTopic:
    """A topic was restored from a checkpoint, as a whole."""

    topic_id: str
    """Of the new topic."""
    id: int
    moved: Mapping[int, tuple[MovedRecords, ...]] = field(default_factory=dict)
    """By partition: those that some group will read once more."""

    @property
    def record(self) -> tuple[bytes, bytes]:
        """Key and value."""
        moved = {
            number: [[*_place(one.old), one.new_offset, one.count] for one in some]
            for number, some in self.moved.items()
        }
        body = {"id": self.id, "moved": moved}
        return f"restored/{self.topic_id}".encode(), json.dumps(body).encode()

    def original(self, partition: int, offset: int) -> RecordAddress | None:
        """The place that the record at *offset* had before; None: no restore has put it there."""
        for one in self.moved.get(partition, ()):
            if one.new_offset <= offset < one.new_offset + one.count:
                shift = offset - one.new_offset
                return RecordAddress(one.old.topic_id, one.old.partition, one.old.offset + shift)
        return None


@dataclass(frozen=True, slots=True)
class RetentionHold:
    """A take holds a topic's retention back."""

    topic_id: str
    request: str
    """Of the take: several may hold the same topic."""
    topic: str
    settings: Mapping[str, str | None] | None
    """The topic's own before the first of them; a None within: it had none. None: let go."""

    @property
    def record(self) -> tuple[bytes, bytes]:
        """Key and value."""
        settings = None if self.settings is None else dict(self.settings)
        body = {"topic": self.topic, "settings": settings}
        return f"held/{self.topic_id}/{self.request}".encode(), json.dumps(body).encode()


def _place(one: RecordAddress) -> tuple[str, int, int]:
    return one.topic_id, one.partition, one.offset


@dataclass(frozen=True, slots=True)
class Control:
    """All that the control topic says."""

    latest_id: int = 0
    """The greatest id that was ever taken, or come to, or restored."""
    created: Mapping[tuple[str, str, int], Created] = field(default_factory=dict)
    """By group, topic id and partition: the last."""
    noted: Mapping[tuple[str, str, int], tuple[Created, ...]] = field(default_factory=dict)
    """By the same: those that were asked for, in the order of the log, not the last alone."""
    restored: Mapping[str, RestoredTopic] = field(default_factory=dict)
    """By the topic's id."""
    held: Mapping[tuple[str, str], RetentionHold] = field(default_factory=dict)
    """By the topic's id and the request: those that were not let go."""


def take_record(id: int, at_ms: int) -> tuple[bytes, bytes]:
    """What the coordinator writes before it writes any marker."""
    return f"take/{id}".encode(), json.dumps({"at_ms": at_ms}).encode()


def control_of(
    records: Iterable[tuple[bytes | None, bytes | None]], since: int | None = None
) -> Control:
    """What *records*, by key and value in the order of the log, come to.

    What is none of ours is passed over: anybody who may write there may write anything. Whoever
    came to checkpoint *since*, or to one behind it, is in `noted` each time.
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
    told = {owner: tuple(some) for owner, some in noted.items()}
    return Control(latest, created, told, restored, kept)


def _parsed(
    key: bytes | None, value: bytes | None
) -> int | Created | RestoredTopic | RetentionHold | None:
    try:
        kind, _, rest = (key or b"").decode().partition("/")
        body = json.loads(value or b"null")
        if kind == "take":
            return _id(int(rest))
        if kind == "created":
            return _created(rest, body)
        if kind == "held":
            return _held(rest, body)
        return _restored(rest, body) if kind == "restored" else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _created(rest: str, body: Any) -> Created:
    topic_id, number, group = rest.split("/", 2)
    saved = body["state"]
    state = None if saved is None else base64.b64decode(saved, validate=True)
    told = body.get("known")
    known = None if told is None else tuple(map(_last_of, told))
    position = int(body["position"])
    return Created(group, topic_id, int(number), _id(body["id"]), position, state, known)


def _last_of(told: Any) -> LastOf:
    topic_id, partition, group, offset, index = told
    return LastOf(str(topic_id), int(partition), str(group), int(offset), int(index))


def _restored(rest: str, body: Any) -> RestoredTopic:
    moved = {
        int(number): tuple(
            MovedRecords(
                RecordAddress(str(topic), int(partition), int(offset)), int(new), int(count)
            )
            for topic, partition, offset, new, count in some
        )
        for number, some in body["moved"].items()
    }
    return RestoredTopic(rest, _id(body["id"]), moved)


def _held(rest: str, body: Any) -> RetentionHold:
    topic_id, request = rest.split("/", 1)
    told = body["settings"]
    settings = (
        None
        if told is None
        else {str(name): None if value is None else str(value) for name, value in told.items()}
    )
    return RetentionHold(topic_id, request, str(body["topic"]), settings)


def _id(value: int) -> int:
    if not 0 < value < 2**63:
        raise ValueError(value)
    return value
