"""What an election is about, frozen: prices, what stands alone, what is left out, what is saved."""

from __future__ import annotations

from dataclasses import replace

from breakglass.services.guard.consent import Price
from breakglass.services.model import LogDir, PartitionEvidence, Unknown
from breakglass.services.recovery.guarded.election_quote import frozen
from breakglass.services.recovery.guarded.subject import (
    ElectionSubject,
    RescueSize,
    rescue_size,
    subject_of,
)
from breakglass.services.recovery.judgement.assessment import own_consent
from breakglass.services.recovery.judgement.loss import loss_of
from breakglass.services.recovery.judgement.ranking import rank
from breakglass.services.recovery.judgement.verdict import assess
from tests.unit.recovery.plans import (
    BOMB,
    CLUSTER,
    FORK,
    GONE,
    INTERNAL,
    LOSS,
    SAFE,
    UNPROVEN,
    WAITING,
    named,
)
from tests.unit.recovery.replicas import log, offline


def about(*evidence: PartitionEvidence) -> ElectionSubject:
    return subject_of(
        CLUSTER, [one.partition for one in evidence], [assess(one, GONE) for one in evidence]
    )


def test_the_recommended_replica_of_each_is_elected_internal_topics_first() -> None:
    found = about(LOSS, SAFE, INTERNAL)
    assert named(priced.partition for priced in found.wanted) == [
        "__consumer_offsets-0",
        "orders-1",
        "orders-3",
    ]
    assert [priced.target.designee for priced in found.wanted] == [1, 2, 1]


def test_what_only_the_operator_can_decide_is_left_with_the_reason() -> None:
    found = about(FORK, BOMB, SAFE)
    assert named(priced.partition for priced in found.wanted) == ["orders-1"]
    reasons = {str(left.partition): left.reason.partition(": ")[0] for left in found.left}
    assert reasons == {"orders-5": "FORK decide", "orders-8": "BOMB stop b4 NOW"}


def test_what_is_online_or_unread_is_left() -> None:
    found = subject_of(CLUSTER, [SAFE.partition], [])
    assert (found.wanted, [left.partition for left in found.left]) == ((), [SAFE.partition])


def test_each_that_stands_alone_says_why_and_unknown_losses_are_in_no_sum() -> None:
    found = about(SAFE, UNPROVEN, INTERNAL)
    assert (found.known_loss, found.unknown_losses) == (Price(0), 1)
    assert sorted(named(found.why_alone)) == ["__consumer_offsets-0", "orders-6"]
    assert [group.phrase for group in found.groups] == [
        "__consumer_offsets-0 lose 0",
        "orders-6 lose unknown",
        "orders-1 lose 0 and abandon b3",
    ]


def test_r08_a_ranking_that_was_worked_out_before_says_what_is_unproven() -> None:
    ranking = rank(UNPROVEN)
    assert ranking.unproven
    assert own_consent(SAFE, 2, (), loss_of(SAFE, 2), ranking) == ranking.unproven


def test_a_start_that_would_spare_an_election_is_known() -> None:
    found = about(WAITING, SAFE)
    assert found.spared == {WAITING.partition: "start b5"}


def test_without_some_the_others_stay_as_they_were() -> None:
    found = about(LOSS, SAFE).without({LOSS.partition}, "left out by you")
    assert named(priced.partition for priced in found.wanted) == ["orders-1"]
    assert [(str(left.partition), left.reason) for left in found.left] == [
        ("orders-3", "left out by you")
    ]
    assert found.known_loss == Price(0)


def test_what_a_rescue_saves_is_counted_in_records_and_bytes() -> None:
    folder = LogDir("/logs", online=True, size=15_000)
    loser = replace(log(2, (0, 100), (1, 150), hw=100), log_dir=folder)
    size = rescue_size([frozen(offline(log(1, (0, 100), (2, 125), hw=100), loser), 1)])
    assert size == RescueSize(1, 50, 5_000 + 50 * 64)


def test_a_size_that_is_not_told_is_unknown_and_the_records_are_still_counted() -> None:
    size = rescue_size([frozen(LOSS, 1)])
    assert (size.partitions, size.records) == (1, 50)
    assert isinstance(size.size, Unknown)


def test_nothing_is_saved_where_nothing_is_cut_off() -> None:
    assert rescue_size([frozen(SAFE, 2)]) == RescueSize(0, 0, 0)
