"""Edits of a plan, and the differences they make."""

import pytest

from breakglass.services.errors import Refused
from breakglass.services.model import PartitionEvidence, Reassignment
from breakglass.services.recovery.plan.edit import (
    diff,
    exclude,
    least_loss,
    never,
    prefer,
    set_leader,
    without_waiting,
)
from tests.unit.recovery.plans import BOMB, LOSS, SAFE, WAITING, planned
from tests.unit.recovery.replicas import log, offline

EQUAL = offline(log(1, (0, 90)), log(2, (0, 90)), log(3, (0, 90)), number=2)
LONGER_FENCED = offline(log(1, (0, 9), fenced=True), log(2, (0, 5)), number=10)


DIR_OFFLINE = offline(log(1, (0, 9), log_dir_online=False), log(2, (0, 5)))
UNREGISTERED = offline(log(2, (0, 9)), log(1, (0, 9)), log(3, (0, 9)), unregistered=(3,))


@pytest.mark.parametrize(
    ("evidence", "broker"),
    [
        pytest.param(LONGER_FENCED, 1, id="R16 fenced"),
        pytest.param(EQUAL, 7, id="R16 not assigned"),
        pytest.param(DIR_OFFLINE, 1, id="R16 offline directory"),
        pytest.param(BOMB, 2, id="R01"),
        pytest.param(offline(log(1, (0, 9)), reassignment=Reassignment((4,), ())), 1, id="R12"),
        pytest.param(UNREGISTERED, 1, id="R12 unregistered"),
    ],
)
def test_what_cannot_be_elected_cannot_be_set(evidence: PartitionEvidence, broker: int) -> None:
    plan = planned(evidence)
    with pytest.raises(Refused):
        set_leader(plan, next(iter(plan.records)), broker)


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
