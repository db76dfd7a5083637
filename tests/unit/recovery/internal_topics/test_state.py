"""What records of an internal partition amount to, and what it means that some are lost (R17)."""

from __future__ import annotations

import struct

import pytest

from breakglass.services.model import TopicPartition
from breakglass.services.recovery.internal_topics.meaning import LostState
from breakglass.services.recovery.internal_topics.records import (
    GroupMembership,
    GroupPosition,
    SegmentState,
    SharePosition,
    StateKey,
    StateKind,
    StateValue,
    TransactionalState,
)
from breakglass.services.recovery.internal_topics.state import (
    StateFold,
    differences,
    finished_beyond,
    merged,
)
from breakglass.services.recovery.transactions.source import LoggedBatch
from breakglass.services.topic_backup.record import Record, TimestampType
from tests.unit.recovery.internal_topics.test_records import offset_key

OFFSETS = "__consumer_offsets"
KEY = StateKey(StateKind.OFFSET, "billing", "orders-3")
ORDERS = TopicPartition("orders", 3)


def committing(offset: int) -> Record:
    value = struct.pack(">hqih", 3, offset, -1, 0) + struct.pack(">q", 9)
    return Record(0, TimestampType.CREATE, 0, offset_key(), value)


def data(offset: int, *, producer: int = -1) -> LoggedBatch:
    return LoggedBatch(producer, producer >= 0, None, (committing(offset),))


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


def test_the_last_commit_counts() -> None:
    assert stands(folded(data(5), data(9))) == 9


@pytest.mark.parametrize(
    ("batches", "offset"),
    [
        ((data(5), data(9, producer=1)), 5),
        ((data(5), data(9, producer=1), end(1, commit=True)), 9),
        ((data(5), data(9, producer=1), end(1, commit=False)), 5),
        ((data(5), data(9, producer=1), end(2, commit=True)), 5),
    ],
    ids=["open", "committed", "aborted", "another's marker"],
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
    lost.add(LoggedBatch(-1, False, None, (Record(0, TimestampType.CREATE, 0, b"?", b"?"),)))
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
    return TransactionalState(producer, epoch, status, (ORDERS,))


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            of(StateKind.OFFSET, GroupPosition(75, 0), GroupPosition(20, 0)),
            "goes back by 55 offsets",
        ),
        (of(StateKind.OFFSET, GroupPosition(75, 0), None), "auto.offset.reset"),
        (of(StateKind.OFFSET, None, GroupPosition(75, 0)), "is back"),
        (of(StateKind.GROUP, GroupMembership(), None), "members join again"),
        (
            of(StateKind.TRANSACTION, transactional(7), transactional(5)),
            "call initTransactions 3 times",
        ),
        (
            of(StateKind.TRANSACTION, transactional(7), transactional(5, "PrepareCommit")),
            "CONCURRENT_TRANSACTIONS for ever",
        ),
        (
            of(StateKind.TRANSACTION, transactional(7), transactional(7, "Ongoing")),
            "is ABORTED at its timeout",
        ),
        (
            of(StateKind.TRANSACTION, transactional(7), transactional(7, "PrepareCommit")),
            "writes the markers again",
        ),
        (of(StateKind.TRANSACTION, transactional(7, "Ongoing"), None), "may stay open on orders-3"),
        (
            of(StateKind.TRANSACTION, transactional(7), transactional(9, producer=3)),
            "counts as the living one",
        ),
        (
            of(StateKind.SHARE, SharePosition(25, (), True), SharePosition(10, ((12, 13),), True)),
            "13 records that were acknowledged are delivered again",
        ),
        (of(StateKind.SEGMENT, SegmentState(1, (0, 9)), None), "offsets 0 to 9 cannot be fetched"),
        (
            of(StateKind.SEGMENT, SegmentState(3, None), SegmentState(1, (0, 9))),
            "were deleted and are announced again",
        ),
    ],
)
def test_r17_what_follows_from_a_loss_is_said(state: LostState, words: str) -> None:
    assert words in state.meaning
    assert state.harmless is (state.key.kind is StateKind.GROUP)


def test_r17_what_is_left_and_newer_is_harmless() -> None:
    newer = of(StateKind.OFFSET, GroupPosition(75, 0), GroupPosition(80, 0))
    assert newer.harmless
    assert "not older" in newer.meaning
