"""Committed offsets that a source still has: which groups are set to them, and how far."""

from __future__ import annotations

import pytest

from breakglass.services.model import EpochHistory, EpochRange, TopicPartition
from breakglass.services.recovery.group_standing import LeaderLog
from breakglass.services.recovery.internal_topics.finding import InternalLoss, LostTail
from breakglass.services.recovery.internal_topics.meaning import LostState
from breakglass.services.recovery.internal_topics.records import (
    GroupMembership,
    GroupPosition,
    StateKey,
    StateKind,
)
from breakglass.services.recovery.lost_offsets import move_to_lost, newest_lost

ORDERS = TopicPartition("orders-2", 0)
OFFSETS = TopicPartition("__consumer_offsets", 3)
LOG = LeaderLog("an id", 0, 110, EpochHistory((EpochRange(1, 0, 80), EpochRange(4, 80, 110)), 0))


def tail(source: str, *states: LostState) -> LostTail:
    return LostTail(OFFSETS, 1, source, 0, 9, states)


def position(offset: int, at_ms: int) -> LostState:
    key = StateKey(StateKind.OFFSET, "billing", str(ORDERS))
    return LostState(key, GroupPosition(offset, at_ms), None)


def test_of_two_sources_the_newest_commit_counts() -> None:
    members = LostState(StateKey(StateKind.GROUP, "billing"), GroupMembership(), None)
    loss = InternalLoss(
        OFFSETS, 1, 1, (tail("a", position(75, 2), members), tail("b", position(90, 1)))
    )
    assert newest_lost([loss]) == {("billing", ORDERS): GroupPosition(75, 2)}
    assert newest_lost([loss], ["another"]) == {}


@pytest.mark.parametrize(
    ("committed", "lost", "epoch", "to"),
    [
        (20, 75, 1, 75),
        (None, 75, -1, 75),
        (75, 75, 1, None),
        (90, 75, 1, None),
        (20, 100, 1, 80),
        (20, 100, 4, 100),
        (20, 130, -1, 110),
        (85, 100, 1, None),
    ],
)
def test_r38_a_group_is_set_forward_and_to_no_offset_that_its_log_does_not_have(
    committed: int | None, lost: int, epoch: int, to: int | None
) -> None:
    move = move_to_lost("billing", ORDERS, committed, GroupPosition(lost, 0, epoch), LOG)
    assert (None if move is None else move.to) == to
