"""Edits of a plan, and the differences they make."""

from __future__ import annotations

import pytest

from breakglass.services.errors import Refused, UsageError
from breakglass.services.model import PartitionEvidence, Reassignment, TopicPartition
from breakglass.services.recovery.plan.document import ChosenBy, Plan, PlanEntry
from breakglass.services.recovery.plan.edit import (
    brokers_in_rack,
    diff,
    exclude,
    least_loss,
    never,
    prefer,
    set_leader,
    set_leaders,
    without_waiting,
)
from breakglass.services.snapshot import Broker
from tests.unit.recovery.plans import BOMB, FORK, HALF_READ, INTERNAL, LOSS, SAFE, WAITING, planned
from tests.unit.recovery.replicas import log, offline

EQUAL = offline(log(1, (0, 90)), log(2, (0, 90)), log(3, (0, 90)), number=2)
LONGER_FENCED = offline(log(1, (0, 9), fenced=True), log(2, (0, 5)), number=10)


def test_a_leader_is_set_by_hand_and_the_given_plan_stays_as_it_was() -> None:
    before = planned(LOSS)
    after = set_leader(before, LOSS.partition, 2)
    assert (before.leaders[LOSS.partition], after.leaders[LOSS.partition]) == (1, 2)
    assert after.records[LOSS.partition].chosen_by is ChosenBy.HAND
    assert after.digest != before.digest


def test_what_was_left_out_can_be_set_and_takes_its_place_in_the_order() -> None:
    after = set_leader(planned(SAFE, FORK, HALF_READ, INTERNAL), FORK.partition, 1)
    assert [str(leader) for leader in after.leaders] == [
        "__consumer_offsets-0", "orders-1", "orders-5", "orders-7",
    ]  # fmt: skip
    assert after.records[FORK.partition].left_out == ""


DIR_OFFLINE = offline(log(1, (0, 9), log_dir_online=False), log(2, (0, 5)))
MOVING = offline(log(1, (0, 9)), reassignment=Reassignment((4,), ()))
UNREGISTERED = offline(log(2, (0, 9)), log(1, (0, 9)), log(3, (0, 9)), unregistered=(3,))


@pytest.mark.parametrize(
    ("evidence", "broker"),
    [
        pytest.param(LONGER_FENCED, 1, id="R16 fenced"),
        pytest.param(EQUAL, 7, id="R16 not assigned"),
        pytest.param(DIR_OFFLINE, 1, id="R16 offline directory"),
        pytest.param(BOMB, 2, id="R01"),
        pytest.param(MOVING, 1, id="R12"),
        pytest.param(UNREGISTERED, 1, id="R12 unregistered"),
    ],
)
def test_what_cannot_be_elected_cannot_be_set(evidence: PartitionEvidence, broker: int) -> None:
    plan = planned(evidence)
    with pytest.raises(Refused):
        set_leader(plan, next(iter(plan.records)), broker)


def test_leaders_are_set_together_or_not_at_all() -> None:
    before = planned(LOSS, SAFE)
    after = set_leaders(before, {LOSS.partition: 2, SAFE.partition: 1})
    assert (after.leaders[LOSS.partition], after.leaders[SAFE.partition]) == (2, 1)
    with pytest.raises(Refused):
        set_leaders(before, {LOSS.partition: 2, SAFE.partition: 3})


def test_a_partition_that_the_plan_does_not_know_cannot_be_edited() -> None:
    with pytest.raises(UsageError):
        set_leader(planned(SAFE), TopicPartition("orders", 77), 1)
    bare = Plan(entries=(PlanEntry(topic="orders", number=1, leader=2),))
    with pytest.raises(UsageError):
        exclude(bare, SAFE.partition)


def test_preferred_brokers_lead_where_their_log_is_as_good() -> None:
    after = prefer(planned(EQUAL, SAFE), {3, 1})
    assert (after.leaders[EQUAL.partition], after.leaders[SAFE.partition]) == (1, 2)
    after = prefer(planned(EQUAL), {3})
    assert after.leaders[EQUAL.partition] == 3
    assert after.records[EQUAL.partition].chosen_by is ChosenBy.RULE
    brokers = [Broker(1, "h", 1, "a"), Broker(2, "h", 2, "b"), Broker(3, "h", 3, "b")]
    assert brokers_in_rack(brokers, "b") == {2, 3}


def test_a_broker_that_must_not_lead_gives_way_to_the_next_best() -> None:
    after = never(planned(SAFE, EQUAL), 2)
    assert (after.leaders[SAFE.partition], after.leaders[EQUAL.partition]) == (1, 1)


def test_what_only_a_banned_broker_could_lead_is_left_out() -> None:
    after = never(planned(HALF_READ), 1)
    assert after.entries == ()
    assert "no other replica can" in after.left_out[0].left_out


def test_r09_least_loss_may_choose_against_the_ranking() -> None:
    """The later epoch cuts off 50 records, the longer log only 25."""
    after = least_loss(planned(LOSS, SAFE))
    assert (after.leaders[LOSS.partition], after.leaders[SAFE.partition]) == (2, 2)
    assert after.records[SAFE.partition].chosen_by is ChosenBy.RANK


def test_what_a_start_brings_back_whole_can_be_left_out_with_its_reason() -> None:
    after = without_waiting(planned(SAFE, WAITING))
    assert list(after.leaders) == [SAFE.partition]
    assert "would bring it back whole" in after.left_out[0].left_out


def test_a_rule_can_be_for_some_partitions_alone() -> None:
    plan = planned(SAFE, EQUAL, LOSS, WAITING)
    only = {SAFE.partition, WAITING.partition}
    assert never(plan, 2, 1, only=only).leaders.keys() == {EQUAL.partition, LOSS.partition}
    assert least_loss(plan, only) is plan
    assert prefer(plan, {3}, only) is plan
    assert WAITING.partition in without_waiting(plan, {SAFE.partition}).leaders


def test_what_is_not_edited_is_kept_and_not_copied() -> None:
    before = planned(SAFE, LOSS)
    after = set_leader(before, LOSS.partition, 2)
    assert after.records[SAFE.partition] is before.records[SAFE.partition]
    assert after.entries[0] is before.entries[0]


def test_a_difference_names_leaders_and_losses_of_both_plans() -> None:
    before = planned(SAFE, LOSS)
    after = exclude(set_leader(before, LOSS.partition, 2), SAFE.partition)
    assert [
        (
            str(difference.partition),
            difference.before,
            difference.after,
            difference.loss_before,
            difference.loss_after,
        )
        for difference in diff(before, after)
    ] == [("orders-1", 2, None, 0, None), ("orders-3", 1, 2, 50, 25)]
    assert diff(before, before) == ()
    longer = offline(log(1, (0, 90)), log(2, (0, 120)), number=1)
    (found,) = diff(planned(SAFE), planned(longer))
    assert (found.before, found.after, found.evidence_changed) == (2, 2, True)
