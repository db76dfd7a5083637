"""What a whole plan does, in one line."""

from __future__ import annotations

from breakglass.services.model import Unknown
from breakglass.services.recovery.plan.document import Plan, PlanEntry
from breakglass.services.recovery.plan.edit import set_leader
from breakglass.services.recovery.plan.make import totals_of
from tests.unit.recovery.plans import FORK, HALF_READ, LOSS, SAFE, planned
from tests.unit.recovery.replicas import log, offline, silent


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
