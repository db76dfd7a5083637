"""Records of internal topics, decoded from bytes that are put together field by field."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import INTERNAL_TOPICS, TopicPartition
from breakglass.services.recovery.internal_topics.records import (
    GroupMembership,
    GroupPosition,
    SegmentState,
    SharePosition,
    StateChange,
    StateKey,
    StateKind,
    TransactionalState,
    change_of,
)
from breakglass.services.recovery.internal_topics.wire import NotThatRecord
from breakglass.services.topic_backup.record import Record, TimestampType

TRANSACTIONS, OFFSETS, SHARES, SEGMENTS = INTERNAL_TOPICS
TOPIC_ID, SEGMENT_ID = UUID(int=7), UUID(int=9)


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(0, TimestampType.CREATE, 0, key, value)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def compact(value: str) -> bytes:
    return bytes([len(value.encode()) + 1]) + value.encode()


def offset_key(version: int = 1) -> bytes:
    return struct.pack(">h", version) + text("billing") + text("orders") + struct.pack(">i", 3)


OFFSET_VALUES = {
    0: struct.pack(">hq", 0, 42) + text("note") + struct.pack(">q", 1_000),
    1: struct.pack(">hq", 1, 42) + text("note") + struct.pack(">qq", 1_000, 2_000),
    3: struct.pack(">hqi", 3, 42, 5) + text("note") + struct.pack(">q", 1_000),
    4: struct.pack(">hqi", 4, 42, 5)
    + compact("note")
    + struct.pack(">q", 1_000)
    + bytes([1, 0, 16])
    + TOPIC_ID.bytes,
}


@pytest.mark.parametrize("version", OFFSET_VALUES)
def test_a_committed_offset_of_every_version_is_read(version: int) -> None:
    found = change_of(OFFSETS, record(offset_key(), OFFSET_VALUES[version]))
    key = StateKey(StateKind.OFFSET, "billing", "orders-3")
    assert found == StateChange(key, GroupPosition(42, 1_000))


def test_a_tombstone_removes_its_key() -> None:
    found = change_of(OFFSETS, record(offset_key(0), None))
    assert found == StateChange(StateKey(StateKind.OFFSET, "billing", "orders-3"), None)


@pytest.mark.parametrize("kind", [2, 3, 11, 17, 23])
def test_every_other_key_of_the_group_coordinator_names_its_group(kind: int) -> None:
    key = struct.pack(">h", kind) + text("billing") + text("a member")
    found = change_of(OFFSETS, record(key, b"\x00\x00"))
    assert found == StateChange(StateKey(StateKind.GROUP, "billing"), GroupMembership())


def test_a_key_of_a_kind_that_nobody_knows_is_not_understood() -> None:
    with pytest.raises(NotThatRecord, match="type 99"):
        change_of(OFFSETS, record(struct.pack(">h", 99) + text("billing"), b""))


def test_a_transactional_id_is_read_in_both_versions() -> None:
    key = struct.pack(">h", 0) + text("writer")
    times = struct.pack(">qq", 5, 6)
    older = (
        struct.pack(">hqhib", 0, 4_000, 7, 60_000, 2)
        + struct.pack(">i", 1)
        + text("orders")
        + struct.pack(">iii", 2, 3, 1)
        + times
    )
    newer = (
        struct.pack(">hqhib", 1, 4_000, 7, 60_000, 2)
        + bytes([2])
        + compact("orders")
        + bytes([3])
        + struct.pack(">ii", 3, 1)
        + bytes([0])
        + times
        + bytes([1, 2, 2, 0, 2])
    )
    wanted = TransactionalState(
        4_000, 7, "PrepareCommit", (TopicPartition("orders", 1), TopicPartition("orders", 3))
    )
    for value in (older, newer):
        found = change_of(TRANSACTIONS, record(key, value))
        assert found == StateChange(StateKey(StateKind.TRANSACTION, "writer"), wanted)


def test_a_transactional_id_without_partitions_has_none() -> None:
    key = struct.pack(">h", 0) + text("writer")
    value = struct.pack(">hqhib", 1, 4_000, 7, 60_000, 4) + bytes([0]) + struct.pack(">qq", 5, 6)
    found = change_of(TRANSACTIONS, record(key, value + bytes([0])))
    assert found is not None
    assert found.value == TransactionalState(4_000, 7, "CompleteCommit", ())


def share_key(kind: int) -> bytes:
    return struct.pack(">h", kind) + text("readers") + TOPIC_ID.bytes + struct.pack(">i", 2)


BATCHES = (
    bytes([4])
    + struct.pack(">qqbhB", 10, 12, 2, 1, 0)
    + struct.pack(">qqbhB", 13, 13, 0, 1, 0)
    + struct.pack(">qqbhB", 14, 15, 4, 5, 0)
)


def test_a_share_groups_snapshot_and_update_say_what_is_done_with() -> None:
    snapshot = (
        struct.pack(">hiiiqqq", 0, 1, 2, 3, 10, 4, 5) + BATCHES + bytes([1, 0, 4, 0, 0, 0, 5])
    )
    update = struct.pack(">hiiq", 0, 1, 3, -1) + BATCHES + bytes([0])
    key = StateKey(StateKind.SHARE, "readers", f"{TOPIC_ID}-2")
    done = ((10, 12), (14, 15))
    found = change_of(SHARES, record(share_key(0), snapshot))
    assert found == StateChange(key, SharePosition(10, done, snapshot=True))
    found = change_of(SHARES, record(share_key(1), update))
    assert found == StateChange(key, SharePosition(-1, done, snapshot=False))


def segment_id() -> bytes:
    place = compact("orders") + TOPIC_ID.bytes + struct.pack(">i", 3) + bytes([0])
    return place + SEGMENT_ID.bytes + bytes([0])


def test_a_tiered_segment_and_its_update_say_its_state() -> None:
    begun = (
        bytes([0, 0])
        + segment_id()
        + struct.pack(">qqiqq", 100, 199, 1, 5, 6)
        + bytes([2])
        + struct.pack(">iqB", 4, 100, 0)
        + struct.pack(">i", 9_000)
        + bytes([0])
        + struct.pack(">bB", 0, 0)
    )
    copied = bytes([1, 0]) + segment_id() + struct.pack(">iq", 1, 7) + bytes([0, 1, 0])
    key = StateKey(StateKind.SEGMENT, str(SEGMENT_ID), "orders-3")
    assert change_of(SEGMENTS, record(None, begun)) == StateChange(key, SegmentState(0, (100, 199)))
    assert change_of(SEGMENTS, record(None, copied)) == StateChange(key, SegmentState(1, None))
    assert change_of(SEGMENTS, record(None, bytes([2, 0]))) is None


@given(
    topic=st.sampled_from(INTERNAL_TOPICS),
    key=st.one_of(
        st.binary(max_size=60), st.just(offset_key()), st.just(share_key(0)), st.just(share_key(1))
    ),
    value=st.one_of(st.none(), st.binary(max_size=80)),
)
def test_hostile_bytes_are_not_understood_and_do_no_harm(
    topic: str, key: bytes, value: bytes | None
) -> None:
    try:
        change_of(topic, record(key, value))
    except NotThatRecord:
        return


@given(st.sampled_from(sorted(OFFSET_VALUES)), st.integers(2, 20))
def test_a_value_that_ends_early_is_not_understood(version: int, size: int) -> None:
    value = OFFSET_VALUES[version]
    if size < len(value):
        with pytest.raises(NotThatRecord):
            change_of(OFFSETS, record(offset_key(), value[: min(size, 18)]))
