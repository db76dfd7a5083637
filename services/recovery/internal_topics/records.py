"""Decodes the records of the four internal topics into keys and their states.

Sources: OffsetCommitKey/Value, GroupMetadataKey and the other keys of the group coordinator,
TransactionLogKey/Value, ShareSnapshotKey/Value, ShareUpdateKey/Value of Kafka 4.3.1 (versions of
3.9.2 included); RemoteLogMetadataSerde for tiered segments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from breakglass.services.model import TRANSACTION_STATE, TopicPartition
from breakglass.services.record_batches import Record
from breakglass.services.recovery.internal_topics.wire import NotThatRecord, SchemaReader


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
