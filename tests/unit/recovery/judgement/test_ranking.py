"""Who should lead (R8): last written epoch, then log end, then the order of the assignment."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import PartitionEvidence, ReplicaLog, Unknown
from breakglass.services.recovery.judgement.eligibility import ReplicaStanding, eligibility
from breakglass.services.recovery.judgement.ranking import (
    election_order,
    holds_records,
    log_rank,
    rank,
    readable,
)
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.replicas import log, offline, silent, without_epochs


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        pytest.param(
            [log(1, (0, 100), (1, 150)), log(2, (0, 100), (2, 125))], (2, 1), id="epoch over length"
        ),
        pytest.param([log(1, (3, 70)), log(2, (3, 103))], (2, 1), id="length within an epoch"),
        pytest.param([log(3, (1, 9)), log(1, (1, 9)), log(2, (1, 9))], (3, 1, 2), id="assignment"),
        pytest.param([log(1), log(2, (0, 1))], (2, 1), id="without records last"),
        pytest.param(
            [log(1, start=900), log(2, (0, 1))], (2, 1), id="emptied by retention last, however far"
        ),
    ],
)
def test_r08_replicas_rank_by_written_epoch_then_end_then_assignment(
    replicas: list[ReplicaLog], expected: tuple[int, ...]
) -> None:
    assert rank(offline(*replicas)).brokers == expected


def test_r08_the_current_leader_epoch_does_not_rank() -> None:
    longer = replace(log(1, (1, 150)), leader_epoch=3)
    later = replace(log(2, (2, 125)), leader_epoch=3)
    assert rank(offline(longer, later)).brokers == (2, 1)


def test_r08_an_unknown_epoch_where_ends_differ_leaves_the_order_unproven() -> None:
    ranking = rank(offline(log(1, (5, 100)), without_epochs(2, 150)))
    assert ranking.unproven == "epoch unproven: b2: READ on the topic is missing"
    assert ranking.brokers == (1, 2)


def test_r08_an_unknown_epoch_matters_not_where_ends_are_equal() -> None:
    assert rank(offline(without_epochs(1, 100), without_epochs(2, 100))).unproven == ""


def test_r08_a_log_without_records_needs_no_epoch_to_rank_last() -> None:
    ranking = rank(offline(log(1), without_epochs(2, 100)))
    assert ranking.unproven == ""
    assert ranking.brokers == (2, 1)


def test_r08_a_proven_order_is_kept_where_a_third_replica_is_unproven() -> None:
    ranking = rank(offline(without_epochs(3, 120), log(2, (3, 150)), log(1, (5, 100))))
    assert ranking.brokers == (1, 2, 3)


def test_r16_replicas_that_cannot_be_recommended_follow_whatever_they_hold() -> None:
    ranking = rank(offline(log(1, (9, 999), fenced=True), silent(2, fenced=False), log(3, (0, 1))))
    assert ranking.brokers == (3, 2, 1)
    assert ranking.recommendable == (3,)


def test_nobody_wins_when_nobody_can_be_recommended() -> None:
    assert rank(offline(silent(1), log(2, (0, 9), fenced=True))).winner is None


def test_r21_a_log_end_of_zero_where_others_hold_records_is_remarked() -> None:
    ranking = rank(offline(log(1), log(2, (0, 9))))
    empty, full = ranking.candidate(1), ranking.candidate(2)
    assert empty is not None
    assert full is not None
    assert (empty.remark, full.remark) == ("EMPTY: disk replaced?", "")


def test_r21_logs_without_records_everywhere_are_nothing_odd() -> None:
    assert [candidate.remark for candidate in rank(offline(log(1), log(2))).candidates] == ["", ""]


def test_r04_the_order_to_write_is_the_designee_and_then_best_to_worst() -> None:
    evidence = offline(
        log(5),
        silent(4),
        log(1, (2, 90), fenced=True),
        log(2, (1, 80)),
        log(3, (2, 70)),
    )
    ranking = rank(evidence)
    assert election_order(evidence, ranking, 3) == (3, 1, 2, 4, 5)
    assert election_order(evidence, ranking, 5) == (5, 1, 3, 2, 4)


def test_a_log_end_above_an_unknown_start_counts_as_records() -> None:
    started = replace(log(1, (0, 9)), log_start=Unknown("not told"))
    assert holds_records(started)
    assert not holds_records(replace(log(1), log_start=Unknown("not told")))


@given(partitions())
def test_r08_the_winner_is_never_below_another_eligible_replica(
    evidence: PartitionEvidence,
) -> None:
    winner = rank(evidence).winner
    if winner is None:
        return
    best = readable(winner.replica)
    mine = best.last_written_epoch
    for other in map(readable, evidence.replicas):
        theirs = other.last_written_epoch
        if eligibility(evidence, other.broker).recommendable:
            assert log_rank(other) <= log_rank(best)
            if isinstance(mine, int) and isinstance(theirs, int):
                assert theirs <= mine


@given(partitions(), st.randoms())
def test_the_order_of_the_input_never_matters(evidence: PartitionEvidence, random: Random) -> None:
    shuffled = list(evidence.replicas)
    random.shuffle(shuffled)
    assert rank(replace(evidence, replicas=tuple(shuffled))) == rank(evidence)


@given(partitions())
def test_r16_an_ineligible_replica_is_never_chosen(evidence: PartitionEvidence) -> None:
    winner = rank(evidence).winner
    if winner is not None:
        standing = eligibility(evidence, winner.broker).standing
        assert standing in (ReplicaStanding.ELIGIBLE, ReplicaStanding.DOUBTFUL)
        assert winner.replica.fenced is not True
        assert winner.replica.log_dir_online is not False
        assert isinstance(winner.replica.log_end, int)


@given(partitions())
def test_every_replica_has_its_place_in_ranking_and_order(evidence: PartitionEvidence) -> None:
    ranking = rank(evidence)
    assert sorted(ranking.brokers) == sorted(evidence.state.assignment)
    for broker in ranking.brokers:
        order = election_order(evidence, ranking, broker)
        assert order[0] == broker
        assert sorted(order) == sorted(evidence.state.assignment)
