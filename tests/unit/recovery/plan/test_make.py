"""What goes into a plan, in what order, and at what price."""

from __future__ import annotations

import pytest

from breakglass.services.guard.consent import Price
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.plan.document import ChosenBy, Plan, PlanEntry
from breakglass.services.recovery.plan.edit import set_leader
from breakglass.services.recovery.plan.make import (
    adopt,
    consent_groups,
    make_plan,
    plan_price,
    totals_of,
)
from breakglass.services.recovery.plan.notes import approve
from tests.unit.recovery.plans import (
    BOMB,
    CLUSTER,
    EVERY_KIND,
    FORK,
    GONE,
    HALF_READ,
    INTERNAL,
    LOSS,
    MADE_AT_MS,
    SAFE,
    UNPROVEN,
    WAITING,
    named,
    planned,
)
from tests.unit.recovery.replicas import HEALTHY, log, offline, silent


def test_every_automatable_partition_is_elected_and_the_others_left_out_with_the_reason() -> None:
    plan = planned(*EVERY_KIND)
    assert {str(one): leader for one, leader in plan.leaders.items()} == {
        "__consumer_offsets-0": 1,
        "orders-1": 2,
        "orders-3": 1,
        "orders-4": 2,
        "orders-7": 1,
    }
    assert {str(record.partition): record.left_out.split(":")[0] for record in plan.left_out} == {
        "orders-5": "history fork",
        "orders-6": "epoch unproven",
        "orders-8": "b4 is back EMPTY and b2 holds records",
    }


def test_r17_internal_topics_come_first() -> None:
    assert named(planned(SAFE, INTERNAL).leaders) == ["__consumer_offsets-0", "orders-1"]


def test_partitions_worth_waiting_for_can_be_left_out() -> None:
    plan = make_plan([assess(WAITING, HEALTHY)], CLUSTER, MADE_AT_MS, include_waiting=False)
    assert plan.entries == ()
    assert "would bring it back whole" in plan.left_out[0].left_out


def test_the_records_keep_what_the_choice_rests_on() -> None:
    record = planned(LOSS).records[TopicPartition("orders", 3)]
    assert record.evidence == LOSS
    assert (record.verdict, record.action, record.ranking) == ("LOSS", "elect b1", (1, 2, 3))
    assert (record.loss_of(1).total, record.loss_of(2).total) == (50, 25)
    assert record.chosen_by is ChosenBy.RANK


def test_the_loss_of_an_unread_replica_is_unknown_with_its_reason() -> None:
    record = planned(HALF_READ).records[TopicPartition("orders", 7)]
    assert record.loss_of(2).total == Unknown("b2 does not answer (connection refused)")
    assert isinstance(record.loss_of(99).total, Unknown)


def test_one_phrase_agrees_to_the_bulk_and_one_each_to_what_cannot_share_it() -> None:
    groups = consent_groups(planned(SAFE, LOSS, INTERNAL))
    assert [(group.phrase, group.why_alone) for group in groups] == [
        ("__consumer_offsets-0 lose 0", "it is an internal topic"),
        ("2 partitions lose 50 and abandon b3", ""),
    ]


def test_r16_a_replica_set_by_hand_unread_needs_its_own_consent_to_an_unknown_loss() -> None:
    plan = set_leader(planned(SAFE, HALF_READ), HALF_READ.partition, 2)
    assert [group.phrase for group in consent_groups(plan)] == [
        "orders-7 lose unknown",
        "orders-1 lose 0 and abandon b3",
    ]
    assert isinstance(plan_price(plan).records, Unknown)


def test_r09_a_fork_decided_by_hand_needs_its_own_consent() -> None:
    plan = set_leader(planned(SAFE, FORK), FORK.partition, 1)
    (alone, _) = consent_groups(plan)
    assert (alone.phrase, alone.why_alone) == (
        "orders-5 lose 2",
        "committed records of other replicas are lost",
    )


def test_r08_an_unproven_rank_set_by_hand_needs_its_own_consent() -> None:
    plan = set_leader(planned(UNPROVEN), UNPROVEN.partition, 1)
    (alone,) = consent_groups(plan)
    assert alone.phrase == "orders-6 lose unknown"


def test_an_empty_log_set_by_hand_over_unread_ones_needs_its_own_consent() -> None:
    evidence = offline(silent(1), log(4), number=9)
    (alone,) = consent_groups(set_leader(planned(evidence), evidence.partition, 4))
    assert alone.phrase == "orders-9 lose 0 and abandon b1"
    assert alone.why_alone == "b4 is EMPTY and not every replica could be read"


def test_the_price_of_a_plan_is_that_of_its_elections() -> None:
    assert plan_price(planned(SAFE, LOSS, FORK)) == Price(50)


def test_a_bare_plan_gets_evidence_and_keeps_its_leaders() -> None:
    bare = Plan(
        entries=(
            PlanEntry(topic="orders", number=3, leader=2),
            PlanEntry(topic="orders", number=1, leader=2),
        )
    )
    plan, dismissed = adopt(
        bare, [assess(evidence, GONE) for evidence in (SAFE, LOSS)], CLUSTER, MADE_AT_MS
    )
    assert dismissed == ()
    assert {str(one): leader for one, leader in plan.leaders.items()} == {
        "orders-1": 2,
        "orders-3": 2,
    }
    assert plan.records[SAFE.partition].chosen_by is ChosenBy.RANK
    assert plan.records[LOSS.partition].chosen_by is ChosenBy.HAND
    assert plan.cluster_id == CLUSTER


def test_elections_of_a_bare_plan_that_cannot_be_held_are_dismissed_with_the_reason() -> None:
    bare = Plan(
        entries=(
            PlanEntry(topic="orders", number=1, leader=3),
            PlanEntry(topic="orders", number=8, leader=2),
            PlanEntry(topic="orders", number=9, leader=1),
        )
    )
    plan, dismissed = adopt(
        bare, [assess(evidence, GONE) for evidence in (SAFE, BOMB)], CLUSTER, MADE_AT_MS
    )
    assert plan.entries == ()
    assert [(str(one.partition), one.reason.split(":")[0]) for one in dismissed] == [
        ("orders-1", "b3 is fenced"),
        ("orders-8", "the controller may elect b4 instead"),
        ("orders-9", "it is not offline, or there is no such partition"),
    ]


def test_an_approval_holds_for_one_digest_only() -> None:
    approved = approve(planned(SAFE, LOSS), "ada", 5)
    assert [approval.by for approval in approved.approvals] == ["ada"]
    assert approved.digest == planned(SAFE, LOSS).digest
    assert set_leader(approved, LOSS.partition, 2).approvals == ()


def test_a_bare_plan_has_nothing_to_approve_or_consent_to() -> None:
    bare = Plan(entries=(PlanEntry(topic="orders", number=1, leader=2),))
    with pytest.raises(ValueError, match="evidence"):
        approve(bare, "ada", 5)
    with pytest.raises(ValueError, match="evidence"):
        consent_groups(bare)


def test_elections_losses_and_what_only_unread_replicas_may_hold_are_summed_up() -> None:
    bounded = offline(log(1, (0, 90)), silent(2), number=1, floor=115)
    assert (
        str(totals_of(planned(bounded))) == "elects 1 partition, loses 0, b2 unread (at least 25)"
    )
    assert (
        str(totals_of(planned(bounded, LOSS)))
        == "elects 2 partitions, loses 50, b2,b3 unread (at least 25)"
    )


def test_one_unknown_loss_makes_the_whole_unknown() -> None:
    totals = totals_of(set_leader(planned(SAFE, HALF_READ), HALF_READ.partition, 2))
    assert totals.price is not None
    assert isinstance(totals.price.records, Unknown)
    assert str(totals).startswith("elects 2 partitions, loses unknown")


def test_what_is_left_out_is_counted_apart() -> None:
    totals = totals_of(planned(SAFE, FORK))
    assert (totals.elected, totals.left_out) == (1, 1)


def test_what_a_bare_plan_loses_is_not_known() -> None:
    bare = Plan(entries=(PlanEntry(topic="orders", number=1, leader=2),))
    assert str(totals_of(bare)) == "elects 1 partition"
    assert totals_of(bare).price is None
