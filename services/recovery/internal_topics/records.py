"""Decodes the records of the four internal topics into keys and their states.

Sources: OffsetCommitKey/Value, GroupMetadataKey and the other keys of the group coordinator,
TransactionLogKey/Value, ShareSnapshotKey/Value, ShareUpdateKey/Value of Kafka 4.3.1 (versions of
3.9.2 included); RemoteLogMetadataSerde for tiered segments.

Reads the primitive types of Kafka's versioned records.
In a flexible version, strings and arrays are compact and tagged fields follow. Lengths are checked
against the bytes that are there, because any client may have written a record of an internal topic.

Folds the records of an internal partition into a state by key, as its coordinator does.
Offsets that a transaction commits count only once its commit marker is read, not after an abort.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from uuid import UUID

from breakglass.services.model import TRANSACTION_STATE, TopicPartition
from breakglass.services.record_batches import Record
from breakglass.services.recovery.transactions.source import LoggedBatch

INT64, INT32, INT16, INT8 = (struct.Struct(form) for form in (">q", ">i", ">h", ">b"))
MOST_VARINT_BYTES = 5


class NotThatRecord(Exception):
    """The bytes are not a record of the expected schema."""


class SchemaReader:
    """Walks over one key or value."""

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self.flexible = flexible
        self._data = data
        self._at = 0

    def int64(self) -> int:
        return self._number(INT64)

    def int32(self) -> int:
        return self._number(INT32)

    def int16(self) -> int:
        return self._number(INT16)

    def int8(self) -> int:
        return self._number(INT8)

    def uuid(self) -> UUID:
        return UUID(bytes=self._take(16))

    def text(self) -> str | None:
        """A string; None for null."""
        content = self.content(self._length(INT16))
        return None if content is None else content.decode("utf-8", "replace")

    def required_text(self) -> str:
        """A string that is not null. Raises NotThatRecord."""
        found = self.text()
        if found is None:
            raise NotThatRecord("a string is null")
        return found

    def blob(self) -> bytes | None:
        """Bytes; None for null."""
        return self.content(self._length(INT32))

    def count(self) -> int:
        """How many entries an array has; 0 for null."""
        found = self._length(INT32)
        # Every entry takes at least one byte.
        if found > len(self._data) - self._at:
            raise NotThatRecord(f"{found} entries do not fit")
        return max(found, 0)

    def tags(self) -> dict[int, bytes]:
        """The tagged fields that follow, by tag; empty in a version that is not flexible."""
        found: dict[int, bytes] = {}
        for _ in range(self._varint() if self.flexible else 0):
            tag, size = self._varint(), self._varint()
            found[tag] = self._take(size)
        return found

    def varint(self) -> int:
        """An unsigned number of variable length."""
        return self._varint()

    def content(self, size: int) -> bytes | None:
        return None if size < 0 else self._take(size)

    def _length(self, form: struct.Struct) -> int:
        return self._varint() - 1 if self.flexible else self._number(form)

    def _number(self, form: struct.Struct) -> int:
        return int(form.unpack(self._take(form.size))[0])

    def _varint(self) -> int:
        value = 0
        for place in range(MOST_VARINT_BYTES):
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value
        raise NotThatRecord("a number does not end")

    def _take(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            raise NotThatRecord(f"it ends after {len(self._data)} bytes")
        self._at += size
        return found


class StateKind(StrEnum):
    """What a key of an internal topic is about."""

    OFFSET = "group offset"
    GROUP = "group"
    TRANSACTION = "transactional id"
    SHARE = "share group"
    SEGMENT = "tiered segment"


@dataclass(frozen=True, slots=True, order=True)
class StateKey:
    """One key."""

    kind: StateKind
    name: str
    """The group, the transactional id, the segment."""
    place: str = ""
    """The partition that the key is about, such as ``orders-3``."""


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """The committed offset of a group on one partition."""

    offset: int
    committed_at_ms: int
    leader_epoch: int = -1
    """Of the record before *offset*; -1 where the consumer gave none."""


@dataclass(frozen=True, slots=True)
class GroupMembership:
    """Members, generation, assignment: a state that a group rebuilds by itself."""


@dataclass(frozen=True, slots=True)
class TransactionalState:
    """The coordinator's state of a transactional id."""

    producer_id: int
    producer_epoch: int
    status: str
    """``Ongoing``, ``PrepareCommit``, ``CompleteCommit``, ... (TransactionState.java)"""
    partitions: tuple[TopicPartition, ...]
    updated_ms: int = field(default=-1, compare=False)
    """When the coordinator wrote this state."""
    began_ms: int = field(default=-1, compare=False)
    """When the transaction began: tells it apart from others of its id; -1: no transaction."""


@dataclass(frozen=True, slots=True)
class SharePosition:
    """The progress of a share group on one partition."""

    start_offset: int
    """Every record before this offset is finished; -1: this record does not change the offset."""
    finished: tuple[tuple[int, int], ...]
    """First and last offsets of acknowledged or archived batches from `start_offset` on."""
    snapshot: bool
    """The record replaces the earlier state, instead of adding to it."""


@dataclass(frozen=True, slots=True)
class SegmentState:
    """The brokers' state of one segment in remote storage."""

    state: int
    """RemoteLogSegmentState: 0 copy started, 1 copied, 2 deletion started, 3 deleted."""
    offsets: tuple[int, int] | None
    """First and last offset; None: this record does not name them."""


StateValue = GroupPosition | GroupMembership | TransactionalState | SharePosition | SegmentState

STATUSES = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}
DECIDED = {
    "PrepareCommit": True,
    "CompleteCommit": True,
    "PrepareAbort": False,
    "CompleteAbort": False,
}
"""States of a transaction that is decided, and whether it is committed."""
OFFSET_KEYS = (0, 1)
NEWEST_GROUP_KEY = 23
FIRST_FLEXIBLE_OFFSET, FIRST_FLEXIBLE_TRANSACTION = 4, 1
FINISHED = (2, 4)
"""DeliveryState of a share group's batch: acknowledged, archived."""
COPIED, DELETED = 1, 3


@dataclass(frozen=True, slots=True)
class StateChange:
    """The change that one record makes."""

    key: StateKey
    value: StateValue | None
    """None: the key is removed."""


def change_of(topic: str, record: Record) -> StateChange | None:
    """The change that *record* of the internal topic *topic* makes; None if none that counts.

    Raises:
        NotThatRecord: the record is of an unknown version, or not of that topic's schemas.
    """
    return _DECODERS[topic](record)


def _consumer_offsets(record: Record) -> StateChange | None:
    key = SchemaReader(record.key or b"")
    kind = key.int16()
    if kind > NEWEST_GROUP_KEY:
        raise NotThatRecord(f"a key of type {kind} is not known")
    group = key.required_text()
    if kind not in OFFSET_KEYS:
        value = None if record.value is None else GroupMembership()
        return StateChange(StateKey(StateKind.GROUP, group), value)
    place = TopicPartition(key.required_text(), key.int32())
    named = StateKey(StateKind.OFFSET, group, str(place))
    return StateChange(named, None if record.value is None else _position(record.value))


def _position(content: bytes) -> GroupPosition:
    version = SchemaReader(content).int16()
    value = SchemaReader(content, flexible=version >= FIRST_FLEXIBLE_OFFSET)
    value.int16()
    offset = value.int64()
    epoch = value.int32() if version >= 3 else -1
    value.text()
    return GroupPosition(offset, value.int64(), epoch)


def _transactions(record: Record) -> StateChange | None:
    key = SchemaReader(record.key or b"")
    if key.int16() != 0:
        raise NotThatRecord("a key of another type than 0 is not known")
    named = StateKey(StateKind.TRANSACTION, key.required_text())
    return StateChange(named, None if record.value is None else _transaction(record.value))


def _transaction(content: bytes) -> TransactionalState:
    version = SchemaReader(content).int16()
    value = SchemaReader(content, flexible=version >= FIRST_FLEXIBLE_TRANSACTION)
    value.int16()
    producer_id, epoch = value.int64(), value.int16()
    value.int32()
    status = value.int8()
    partitions: list[TopicPartition] = []
    for _ in range(value.count()):
        topic = value.required_text()
        partitions += [TopicPartition(topic, value.int32()) for _ in range(value.count())]
        value.tags()
    named = STATUSES.get(status, f"status {status}")
    updated, began = value.int64(), value.int64()
    return TransactionalState(producer_id, epoch, named, tuple(sorted(partitions)), updated, began)


def _share_state(record: Record) -> StateChange | None:
    key = SchemaReader(record.key or b"")
    kind = key.int16()
    if kind not in (0, 1):
        raise NotThatRecord(f"a key of type {kind} is not known")
    group, topic_id, partition = key.required_text(), key.uuid(), key.int32()
    named = StateKey(StateKind.SHARE, group, f"{topic_id}-{partition}")
    if record.value is None:
        return StateChange(named, None)
    return StateChange(named, _share_position(record.value, snapshot=kind == 0))


def _share_position(content: bytes, *, snapshot: bool) -> SharePosition:
    value = SchemaReader(content, flexible=True)
    if value.int16() != 0:
        raise NotThatRecord("a value of another version than 0 is not known")
    value.int32()
    if snapshot:
        value.int32()
    value.int32()
    start = value.int64()
    if snapshot:
        value.int64()
        value.int64()
    finished: list[tuple[int, int]] = []
    for _ in range(value.count()):
        first, last, state = value.int64(), value.int64(), value.int8()
        value.int16()
        value.tags()
        if state in FINISHED:
            finished.append((first, last))
    return SharePosition(start, tuple(finished), snapshot)


def _remote_metadata(record: Record) -> StateChange | None:
    value = SchemaReader(record.value or b"", flexible=True)
    kind, version = value.varint(), value.varint()
    if kind not in (0, 1) or version != 0:
        return None
    topic = value.required_text()
    value.uuid()
    partition = value.int32()
    value.tags()
    segment = value.uuid()
    value.tags()
    named = StateKey(StateKind.SEGMENT, str(segment), f"{topic}-{partition}")
    return StateChange(named, _segment(value) if kind == 0 else _segment_update(value))


def _segment(value: SchemaReader) -> SegmentState:
    first, last = value.int64(), value.int64()
    value.int32()
    value.int64()
    value.int64()
    for _ in range(value.count()):
        value.int32()
        value.int64()
        value.tags()
    value.int32()
    value.blob()
    return SegmentState(value.int8(), (first, last))


def _segment_update(value: SchemaReader) -> SegmentState:
    value.int32()
    value.int64()
    value.blob()
    return SegmentState(value.int8(), None)


_DECODERS: dict[str, Callable[[Record], StateChange | None]] = {
    "__consumer_offsets": _consumer_offsets,
    TRANSACTION_STATE: _transactions,
    "__share_group_state": _share_state,
    "__remote_log_metadata": _remote_metadata,
}


@dataclass(slots=True)
class StateFold:
    """The state of one partition, batch by batch."""

    topic: str
    state: dict[StateKey, StateValue] = field(default_factory=dict)
    touched: set[StateKey] = field(default_factory=set)
    """Keys of all records, including removed keys."""
    not_understood: int = 0
    """Number of records of an unknown version."""
    _open: dict[int, list[StateChange]] = field(default_factory=dict)
    """By producer id, the changes of its open transaction, which count once it commits."""

    def copy(self) -> StateFold:
        """A copy to which other batches can be added; `touched` starts empty."""
        waiting = {producer: list(changes) for producer, changes in self._open.items()}
        return StateFold(self.topic, dict(self.state), _open=waiting)

    def add(self, batch: LoggedBatch) -> None:
        """Add the next batch of the log."""
        if batch.commit is not None:
            ended = self._open.pop(batch.producer_id, [])
            for held in ended if batch.commit else ():
                self._apply(held)
            return
        for record in batch.records:
            try:
                change = change_of(self.topic, record)
            except NotThatRecord:
                self.not_understood += 1
                continue
            if change is None:
                continue
            if batch.transactional:
                self._open.setdefault(batch.producer_id, []).append(change)
            else:
                self._apply(change)

    def _apply(self, change: StateChange) -> None:
        self.touched.add(change.key)
        if change.value is None:
            self.state.pop(change.key, None)
        else:
            self.state[change.key] = merged(self.state.get(change.key), change.value)


def merged(before: StateValue | None, after: StateValue) -> StateValue:
    """The state of a key after a record, which may change only a part of the state."""
    if isinstance(after, SharePosition) and isinstance(before, SharePosition):
        if after.snapshot:
            return after
        start = before.start_offset if after.start_offset < 0 else after.start_offset
        finished = joined((*before.finished, *after.finished), start)
        return SharePosition(start, finished, snapshot=True)
    if isinstance(after, SegmentState) and isinstance(before, SegmentState):
        return replace(after, offsets=after.offsets or before.offsets)
    return after


def joined(ranges: tuple[tuple[int, int], ...], start: int) -> tuple[tuple[int, int], ...]:
    """*ranges* of first and last offsets from *start* on, sorted, with adjacent ranges merged."""
    found: list[tuple[int, int]] = []
    for first, last in sorted((max(first, start), last) for first, last in ranges if last >= start):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def finished_beyond(position: SharePosition) -> int:
    """How many offsets from its start offset on a share group has finished."""
    ranges = joined(position.finished, position.start_offset)
    return sum(last - first + 1 for first, last in ranges)


def differences(
    lost: StateFold, left: Mapping[StateKey, StateValue]
) -> dict[StateKey, tuple[StateValue | None, StateValue | None]]:
    """The states of *lost* and *left*, for keys of the lost records whose states differ."""
    return {
        key: (lost.state.get(key), left.get(key))
        for key in sorted(lost.touched)
        if lost.state.get(key) != left.get(key)
    }
