"""What goes into a plan, in what order, and at what price."""

import pytest

from breakglass.services.guard.consent import Price
from breakglass.services.model import PartitionEvidence, Unknown
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.plan.document import Plan, PlanEntry
from breakglass.services.recovery.plan.edit import set_leader
from breakglass.services.recovery.plan.make import (
    adopt,
    consent_groups,
    make_plan,
    plan_price,
    totals_of,
)
from tests.unit.recovery.plans import (
    BOMB,
    CLUSTER,
    FORK,
    GONE,
    HALF_READ,
    LOSS,
    MADE_AT_MS,
    SAFE,
    UNHEARD,
    UNPROVEN,
    WAITING,
    planned,
)
from tests.unit.recovery.replicas import HEALTHY, log, offline, silent


def test_partitions_worth_waiting_for_can_be_left_out() -> None:
    plan = make_plan([assess(WAITING, HEALTHY)], CLUSTER, MADE_AT_MS, include_waiting=False)
    assert plan.entries == ()
    assert "would bring it back whole" in plan.left_out[0].left_out
    records = planned(WAITING, UNHEARD, SAFE).records.values()
    assert [(record.verdict, record.comes_back_whole) for record in records] == [
        ("SAFE", False),
        ("WAIT", True),
        ("WAIT", False),
    ]


EMPTY_LEADER = offline(silent(1), log(4), number=9)


@pytest.mark.parametrize(
    ("evidence", "leader", "phrase"),
    [
        pytest.param(HALF_READ, 2, "orders-7 lose unknown", id="R16: it is unread"),
        pytest.param(FORK, 1, "orders-5 lose 2", id="R09: it decides a fork"),
        pytest.param(UNPROVEN, 1, "orders-6 lose unknown", id="R08: its rank is unproven"),
        pytest.param(EMPTY_LEADER, 4, "orders-9 lose 0 and abandon b1", id="it is empty"),
    ],
)
def test_a_replica_set_by_hand_needs_its_own_consent(
    evidence: PartitionEvidence, leader: int, phrase: str
) -> None:
    plan = set_leader(planned(SAFE, evidence), evidence.partition, leader)
    (alone, bulk) = consent_groups(plan)
    assert (alone.phrase, bulk.phrase) == (phrase, "orders-1 lose 0 and abandon b3")
    assert alone.why_alone
    assert isinstance(plan_price(plan).records, Unknown) == ("unknown" in phrase)


def test_losses_and_what_only_unread_replicas_may_hold_are_summed_up() -> None:
    bounded = offline(log(1, (0, 90)), silent(2), number=1, floor=115)
    totals = totals_of(planned(bounded, LOSS, FORK))
    assert (totals.elected, totals.left_out, totals.price) == (2, 1, Price(50))
    assert str(totals) == "elects 2 partitions, loses 50, b2,b3 unread (at least 25)"
    bare = Plan(entries=(PlanEntry(topic="orders", number=1, leader=2),))
    assert totals_of(bare).price is None
    with pytest.raises(ValueError, match="evidence"):
        consent_groups(bare)


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
