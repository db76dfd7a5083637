"""Records of internal topics, what they amount to, and what it means that some are lost (R17)."""

import struct
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from breakglass.services.errors import ClusterError, TimedOut
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import INTERNAL_TOPICS, TopicPartition, Unknown
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.recovery.internal_topics.finding import (
    InternalLoss,
    InternalSearch,
    LostState,
    nothing_lost,
)
from breakglass.services.recovery.internal_topics.records import (
    GroupMembership,
    GroupPosition,
    NotThatRecord,
    SegmentState,
    SharePosition,
    StateChange,
    StateFold,
    StateKey,
    StateKind,
    StateValue,
    TransactionalState,
    change_of,
    differences,
    finished_beyond,
    merged,
)
from breakglass.services.recovery.transactions.source import LoggedBatch
from tests.kit.clock import Clock

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
    assert found == StateChange(key, GroupPosition(42, 1_000, 5 if version >= 3 else -1))


@pytest.mark.parametrize("kind", [2, 3, 11, 17, 23])
def test_every_other_key_of_the_group_coordinator_names_its_group(kind: int) -> None:
    key = struct.pack(">h", kind) + text("billing") + text("a member")
    found = change_of(OFFSETS, record(key, b"\x00\x00"))
    assert found == StateChange(StateKey(StateKind.GROUP, "billing"), GroupMembership())
    removed = change_of(OFFSETS, record(offset_key(0), None))
    assert removed == StateChange(StateKey(StateKind.OFFSET, "billing", "orders-3"), None)
    with pytest.raises(NotThatRecord):
        change_of(OFFSETS, record(struct.pack(">h", 99) + text("billing"), b""))


def test_a_transactional_id_is_read_in_both_versions_with_partitions_and_without() -> None:
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
    without = struct.pack(">hqhib", 1, 4_000, 7, 60_000, 4) + bytes([0]) + times + bytes([0])
    ended = TransactionalState(4_000, 7, "CompleteCommit", ())
    for value, state in ((older, wanted), (newer, wanted), (without, ended)):
        found = change_of(TRANSACTIONS, record(key, value))
        assert found == StateChange(StateKey(StateKind.TRANSACTION, "writer"), state)


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


KEY = StateKey(StateKind.OFFSET, "billing", "orders-3")


def data(offset: int, *, producer: int = -1) -> LoggedBatch:
    value = struct.pack(">hqih", 3, offset, -1, 0) + struct.pack(">q", 9)
    return LoggedBatch(producer, producer >= 0, None, (record(offset_key(), value),))


def end(producer: int, *, commit: bool) -> LoggedBatch:
    return LoggedBatch(producer, True, commit, ())


def folded(*batches: LoggedBatch) -> StateFold:
    fold = StateFold(OFFSETS)
    for batch in batches:
        fold.add(batch)
    return fold


def stands(fold: StateFold) -> int | None:
    found = fold.state.get(KEY)
    return found.offset if isinstance(found, GroupPosition) else None


@pytest.mark.parametrize(
    ("batches", "offset"),
    [
        ((data(5), data(9)), 9),
        ((data(5), data(9, producer=1)), 5),
        ((data(5), data(9, producer=1), end(1, commit=True)), 9),
        ((data(5), data(9, producer=1), end(1, commit=False)), 5),
        ((data(5), data(9, producer=1), end(2, commit=True)), 5),
    ],
    ids=["the last commit counts", "open", "committed", "aborted", "another's marker"],
)
def test_what_a_transaction_commits_counts_from_its_marker_on(
    batches: tuple[LoggedBatch, ...], offset: int
) -> None:
    assert stands(folded(*batches)) == offset


def test_a_marker_in_the_lost_tail_decides_what_was_written_before_it() -> None:
    """The kept log has the transaction, and its marker is lost with the tail."""
    kept = folded(data(5), data(9, producer=1))
    lost = kept.copy()
    lost.add(end(1, commit=True))
    assert differences(lost, kept.state) == {KEY: (GroupPosition(9, 9), GroupPosition(5, 9))}
    assert stands(kept) == 5


def test_only_keys_of_the_lost_tail_that_differ_are_told() -> None:
    kept = folded(data(5))
    lost = kept.copy()
    assert differences(lost, kept.state) == {}
    lost.add(data(5))
    assert differences(lost, kept.state) == {}
    lost.add(LoggedBatch(-1, False, None, (record(b"?", b"?"),)))
    assert lost.not_understood == 1


def test_a_share_group_adds_up_until_its_next_snapshot() -> None:
    first = SharePosition(10, ((12, 13),), snapshot=True)
    second = merged(first, SharePosition(-1, ((11, 11), (14, 20)), snapshot=False))
    assert isinstance(second, SharePosition)
    assert (second.start_offset, finished_beyond(second)) == (10, 10)
    third = merged(second, SharePosition(13, (), snapshot=False))
    assert isinstance(third, SharePosition)
    assert (third.start_offset, finished_beyond(third)) == (13, 8)
    assert merged(third, first) == first


def of(kind: StateKind, lost: StateValue | None, left: StateValue | None) -> LostState:
    return LostState(StateKey(kind, "x"), lost, left)


def transactional(epoch: int, status: str = "CompleteCommit", *, producer: int = 4) -> StateValue:
    return TransactionalState(producer, epoch, status, (TopicPartition("orders", 3),))


LOST = {
    "an offset": of(StateKind.OFFSET, GroupPosition(75, 0), GroupPosition(20, 0)),
    "every offset": of(StateKind.OFFSET, GroupPosition(75, 0), None),
    "that an offset was removed": of(StateKind.OFFSET, None, GroupPosition(75, 0)),
    "an offset, and what is left is newer": of(
        StateKind.OFFSET, GroupPosition(75, 0), GroupPosition(80, 0)
    ),
    "a member": of(StateKind.GROUP, GroupMembership(), None),
    "an epoch": of(StateKind.TRANSACTION, transactional(7), transactional(5)),
    "an epoch while a commit was prepared": of(
        StateKind.TRANSACTION, transactional(7), transactional(5, "PrepareCommit")
    ),
    "the end of a transaction": of(
        StateKind.TRANSACTION, transactional(7), transactional(7, "Ongoing")
    ),
    "the markers of a transaction": of(
        StateKind.TRANSACTION, transactional(7), transactional(7, "PrepareCommit")
    ),
    "an open transaction": of(StateKind.TRANSACTION, transactional(7, "Ongoing"), None),
    "another producer": of(StateKind.TRANSACTION, transactional(7), transactional(9, producer=3)),
    "acknowledgements": of(
        StateKind.SHARE, SharePosition(25, (), True), SharePosition(10, ((12, 13),), True)
    ),
    "a tiered segment": of(StateKind.SEGMENT, SegmentState(1, (0, 9)), None),
    "a deletion": of(StateKind.SEGMENT, SegmentState(3, None), SegmentState(1, (0, 9))),
}


def test_r17_what_follows_from_a_loss_is_said(snapshot: SnapshotAssertion) -> None:
    assert "\n".join(f"{lost}: {state.meaning}" for lost, state in LOST.items()) == snapshot


@pytest.mark.parametrize("lost", LOST)
def test_r17_memberships_and_what_is_left_and_newer_are_harmless(lost: str) -> None:
    harmless = {"a member", "an offset, and what is left is newer"}
    assert LOST[lost].harmless is (lost in harmless)


def test_no_log_is_said_to_have_more_only_where_all_were_compared() -> None:
    compared = InternalLoss(TopicPartition(OFFSETS, 0), 1, 1, compared=("b2",))
    alone = replace(compared, compared=())
    assert (
        len({nothing_lost([compared]), nothing_lost([compared, alone]), nothing_lost([alone])}) == 2
    )
    doubts = ({"unread": {"b3": "it is down"}}, {"kept": Unknown("nobody leads it")})
    assert [nothing_lost([compared, replace(alone, **doubt)]) for doubt in doubts] == ["", ""]


def test_s50_a_broker_that_hangs_has_half_of_the_time_once_and_the_others_are_read() -> None:
    clock, asked = Clock(), list[int]()

    def read(broker: int, deadline: Deadline) -> dict[object, object]:
        asked.append(broker)
        if broker == 2:
            raise ClusterError("its log directory is offline")
        clock.advance(deadline.remaining())
        raise TimedOut("b1 did not answer in time", "silent")

    states = [
        SimpleNamespace(partition=TopicPartition(OFFSETS, number), leader=1 + number % 2, offline=0)
        for number in range(20)
    ]
    for state in states:
        vars(state).update(assignment=(state.leader,), isr=(state.leader,), topic_id=TOPIC_ID)
    client: Any = SimpleNamespace(
        snapshot=lambda *_, **__: SimpleNamespace(cluster_id="c", live={1, 2}, partitions=states),
        replicas_on=lambda broker: SimpleNamespace(read=lambda _, until: read(broker, until)),
    )
    began = clock()
    found = list(InternalSearch(seconds=3, clock=clock).run(client))
    assert asked.count(1) == 1
    assert asked.count(2) == 10
    assert clock() - began == 1.5
    assert all(f"b{loss.leader}" in loss.unread for loss in found)
    clock.advance(-1.5)
    found = list(InternalSearch(seconds=0, clock=clock).run(client))
    assert len(asked) == 11
    assert all(loss.unread for loss in found)
