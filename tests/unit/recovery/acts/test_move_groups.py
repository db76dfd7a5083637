"""Committed offsets that a source still has: which groups are set to them, and how far."""

from dataclasses import replace

import pytest

from breakglass.services.model import EpochHistory, EpochRange, TopicPartition, Unknown
from breakglass.services.recovery.acts.move_groups import move_to_lost, newest_lost
from breakglass.services.recovery.group_standing import JournalledCut, LeaderLog
from breakglass.services.recovery.internal_topics.finding import InternalLoss, LostState, LostTail
from breakglass.services.recovery.internal_topics.records import (
    GroupMembership,
    GroupPosition,
    StateKey,
    StateKind,
)

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
    ("later", "epochs", "log_end", "to"),
    [
        (80, LOG.epochs, 110, 80),
        (60, LOG.epochs, 110, 80),
        (81, LOG.epochs, 110, 100),
        (None, LOG.epochs, 110, 100),
        (70, Unknown("no answer"), 110, 70),
        (70, EpochHistory((EpochRange(4, 80, 110),), 80), 110, 70),
        (None, LOG.epochs, 90, 90),
    ],
)
def test_r43_a_commit_without_epoch_is_held_back_by_what_was_written_after_it_and_by_journals(
    later: int | None, epochs: EpochHistory | Unknown, log_end: int, to: int
) -> None:
    cut = JournalledCut(ORDERS, "an id", log_end, False, {}, False, "journal", 5)
    of_another = replace(cut, topic_id="another id", log_end=3)
    log, position = replace(LOG, epochs=epochs), GroupPosition(100, 5)
    move = move_to_lost("billing", ORDERS, 20, position, log, later, (cut, of_another))
    assert move is not None
    assert move.to == to


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


@pytest.mark.parametrize("epoch", [2, -1])
def test_r43_a_group_is_set_to_where_its_log_parted_and_nowhere_while_that_is_not_known(
    epoch: int,
) -> None:
    log = LeaderLog(
        "an id", 0, 220, EpochHistory((EpochRange(0, 0, 120), EpochRange(4, 120, 220)), 0), 4
    )
    read = EpochHistory((EpochRange(0, 0, 100), EpochRange(2, 100, 150)), 0)
    for others, expected in (((), (120, False)), ((read,), (100, True))):
        beside = replace(log, others=others)
        move = move_to_lost("billing", ORDERS, None, GroupPosition(140, 5, epoch), beside, 120)
        assert move is not None
        assert (move.to, move.fork_known) == expected


def test_r43_a_topic_that_was_created_again_since_the_commit_begins_with_the_same_epoch() -> None:
    again = LeaderLog("another id", 0, 100, EpochHistory((EpochRange(0, 0, 100),), 0))
    for later, to in ((0, 0), (None, 92), (50, 92)):
        move = move_to_lost("billing", ORDERS, None, GroupPosition(92, 5, 0), again, later)
        assert move is not None
        assert move.to == to
