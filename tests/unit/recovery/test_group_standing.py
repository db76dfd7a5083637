"""Groups past the end of their log, or past a cut of it, by epochs and journals (R19, R37)."""

from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.guard.journal import read
from breakglass.services.model import EpochHistory, EpochRange, TopicPartition, Unknown
from breakglass.services.recovery.group_reset import MoveReason
from breakglass.services.recovery.group_standing import (
    GroupStanding,
    JournalledCut,
    LeaderLog,
    cuts_in,
    doubts,
    moves_past_end,
    without_epochs,
)
from tests.unit.recovery.ledger import incidents
from tests.unit.recovery.plans import SAFE

ORDERS = TopicPartition("orders", 0)
OFFSETS = TopicPartition("__consumer_offsets", 3)
REFILLED = LeaderLog(
    "an id", 0, 110, EpochHistory((EpochRange(1, 0, 80), EpochRange(4, 80, 110)), 0)
)
"""A log that an election cut to 80, in epoch 4, and that producers filled again."""
CUT = JournalledCut(
    ORDERS, "an id", 80, False, {"billing": 100}, True, "a journal", unbroken=frozenset([1])
)
WENT_ON = LeaderLog(
    "an id", 0, 220, EpochHistory((EpochRange(0, 0, 120), EpochRange(4, 120, 220)), 0), 4
)
"""A log that parts at 100 from that of the leader of epoch 2, and went on to 120 in epoch 0."""
PARTED = EpochHistory((EpochRange(0, 0, 100), EpochRange(2, 100, 150)), 0)
OLDER = EpochHistory((EpochRange(0, 0, 100),), 0)


def standing(committed: int, epoch: int | None = None) -> GroupStanding:
    epochs = {} if epoch is None else {ORDERS: {"billing": epoch}}
    return GroupStanding({ORDERS: {"billing": committed}}, {"billing": 1}, {}, epochs=epochs)


def moved(
    committed: int, epoch: int | None, *cuts: JournalledCut, log: LeaderLog = REFILLED
) -> tuple[int | None, MoveReason] | None:
    found = moves_past_end(standing(committed, epoch), {ORDERS: log}, cuts)
    assert all(move.fork_known for move in found)
    return (found[0].to, found[0].reason) if found else None


def fork(
    committed: int, epoch: int | None, log: LeaderLog, *cuts: JournalledCut
) -> tuple[int | None, bool] | None:
    found = moves_past_end(standing(committed, epoch), {ORDERS: log}, cuts)
    return (found[0].to, found[0].fork_known) if found else None


@pytest.mark.parametrize(
    ("committed", "epoch", "expected"),
    [
        (100, 1, (80, MoveReason.REFILLED)),
        (100, 4, None),
        (80, 1, None),
        (130, 1, (80, MoveReason.PAST_END)),
        (130, 4, (110, MoveReason.PAST_END)),
        (100, None, None),
    ],
)
def test_r37_a_group_goes_back_to_where_the_log_that_it_has_read_ends(
    committed: int, epoch: int | None, expected: tuple[int, MoveReason] | None
) -> None:
    assert moved(committed, epoch) == expected


@pytest.mark.parametrize(
    ("committed", "epoch", "alone", "beside"),
    [
        (140, 2, (120, False), (100, True)),
        (110, 2, (110, False), (100, True)),
        (120, 2, None, (100, True)),
        (100, 2, (100, False), None),
        (140, 0, (120, True), (120, True)),
        (140, 4, None, None),
        (230, 3, (120, False), (120, False)),
        (230, None, (220, False), (220, False)),
    ],
)
def test_r37_where_an_epoch_that_the_log_lacks_began_is_shown_by_a_log_that_has_it_alone(
    committed: int,
    epoch: int | None,
    alone: tuple[int, bool] | None,
    beside: tuple[int, bool] | None,
) -> None:
    assert fork(committed, epoch, WENT_ON) == alone
    assert fork(committed, epoch, replace(WENT_ON, others=(OLDER,))) == alone
    assert fork(committed, epoch, replace(WENT_ON, others=(OLDER, PARTED))) == beside


def test_r43_a_group_without_epochs_parts_where_any_log_that_reaches_its_offset_does() -> None:
    ended = replace(WENT_ON, end=130)
    assert fork(140, None, ended) == (130, False)
    assert fork(140, None, replace(ended, others=(OLDER, PARTED))) == (100, True)
    assert fork(160, None, replace(ended, others=(PARTED,))) == (130, False), "it does not reach it"
    followed = EpochHistory((EpochRange(0, 0, 120), EpochRange(1, 120, 130)), 0)
    assert fork(140, None, replace(ended, epochs=followed, leader_epoch=2)) == (130, True)
    assert fork(140, None, replace(ended, epochs=followed, leader_epoch=3)) == (130, False)
    assert fork(100, None, REFILLED, replace(CUT, unbroken=frozenset())) == (80, False)
    assert fork(100, None, REFILLED, replace(CUT, unbroken=frozenset([1, 2]))) == (80, False)


def test_r37_an_epoch_before_the_whole_log_diverges_at_its_start() -> None:
    emptied = replace(REFILLED, epochs=EpochHistory((EpochRange(4, 0, 110),), 0))
    assert moved(100, 1, log=emptied) == (0, MoveReason.REFILLED)
    half_read = replace(REFILLED, epochs=EpochHistory((EpochRange(4, 80, 110),), 80))
    assert moved(100, 1, log=half_read) is None


def test_r37_of_a_client_without_epochs_the_journal_of_the_election_tells() -> None:
    assert moved(100, None, CUT) == (80, MoveReason.REFILLED)
    assert moved(105, None, CUT) is None, "it has committed since"
    assert moved(100, 4, CUT) is None, "its epoch says that it has read the new records"
    assert moved(100, None, replace(CUT, topic_id="of a deleted topic")) is None


def test_r37_where_neither_tells_it_is_not_known() -> None:
    silent = replace(CUT, past_end={}, all_groups=False)
    (doubt,) = doubts(standing(100), {ORDERS: REFILLED}, [silent])
    assert ("billing" in doubt, "80" in doubt) == (True, True)
    assert not list(doubts(standing(100, 4), {ORDERS: REFILLED}, [silent]))
    assert not list(doubts(standing(80), {ORDERS: REFILLED}, [silent]))
    assert not list(doubts(standing(100), {ORDERS: REFILLED}, [CUT]))
    assert not list(doubts(standing(100), {ORDERS: REFILLED}, [replace(CUT, all_groups=False)]))


def test_a_log_that_could_not_be_read_is_named_and_nothing_is_moved() -> None:
    logs = {ORDERS: Unknown("b3 does not answer")}
    assert moves_past_end(standing(100, 1), logs) == ()
    denied = {ORDERS: replace(REFILLED, epochs=Unknown("needs READ on topic orders"))}
    (untold,) = doubts(standing(100, 1), denied, [])
    assert "needs READ on topic orders" in untold
    (doubt,) = doubts(standing(100, 1), logs, [])
    assert "b3 does not answer" in doubt


def test_an_election_of_the_offsets_topic_that_lost_records_is_named() -> None:
    nothing = GroupStanding({}, {}, {})
    (doubt,) = doubts(nothing, {}, [replace(CUT, partition=OFFSETS)])
    assert str(OFFSETS) in doubt
    assert not list(doubts(nothing, {}, [replace(CUT, partition=OFFSETS, lossless=True)]))


def test_r37_groups_without_epochs_are_named() -> None:
    assert list(without_epochs(standing(80, 1))) == []
    (one,) = without_epochs(standing(80))
    many = GroupStanding({ORDERS: dict.fromkeys("abcd", 80)}, {}, {})
    (several,) = without_epochs(many)
    assert ("billing" in one, "4 groups (a, b, c, ...)" in several) == (True, True)


def test_r37_the_journal_of_an_election_says_where_it_cut_the_log_and_whom_that_left_past_it(
    tmp_path: Path,
) -> None:
    evidence = replace(SAFE, group_offsets={"billing": 130, "audit": 5})
    with incidents.begun(tmp_path, evidence) as journal:
        incidents.elect(journal, evidence)
        journal.finish("succeeded")
    (cut,) = cuts_in(read(journal.path))
    assert (cut.partition, cut.log_end) == (SAFE.partition, 90)
    assert (cut.past_end, cut.all_groups) == ({"billing": 130}, True)
    assert cut.unbroken == frozenset(), "the epoch of the leader that was lost is missing"
    with incidents.begun(tmp_path, evidence) as journal:
        incidents.elect(journal, evidence, leader=2)
        journal.finish("succeeded")
    assert list(cuts_in(read(journal.path))) == [], "another leads: where it cut is not known"
