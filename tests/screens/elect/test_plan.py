"""The elections of a plan on the screen: its leaders, its digest, and what it cannot hold."""

from __future__ import annotations

from breakglass.services.recovery.plan.document import Plan, PlanEntry
from breakglass.services.recovery.plan.edit import set_leader
from breakglass.services.recovery.plan.make import make_plan
from breakglass.services.recovery.plan.notes import approve
from tests.kit.fake_metadata import CLUSTER_ID
from tests.screens.elect.conftest import Electing


def plan_of(electing: Electing) -> Plan:
    return make_plan(electing.incident(3).assessments(), CLUSTER_ID, 1_700_000_000_000)


async def test_its_leaders_are_elected_and_its_digest_is_journalled(electing: Electing) -> None:
    electing.session.offline(count=3)
    plan = approve(approve(plan_of(electing), "ada", 1), "bob", 2)
    async with electing.asked(plan=plan) as screen:
        await screen.shows("Elect 3 partitions", plan.spoken_digest, "by ada and bob.")
        await screen.elect()
    (journal,) = electing.session.journals()
    assert journal.plan is not None
    assert journal.plan.payload["digest"] == plan.digest
    assert electing.session.leaders() == {1}


async def test_a_plan_that_holds_in_part_is_elected_as_far_as_it_does(electing: Electing) -> None:
    _, second = electing.session.offline(count=2)
    plan = plan_of(electing)
    electing.cluster.hold(1, second, (0, 140))
    async with electing.asked(plan=plan) as screen:
        await screen.shows("Elect b1 for orders-0", "was 100 and is 140")


async def test_a_leader_chosen_by_hand_is_elected_at_its_price(electing: Electing) -> None:
    (partition,) = electing.session.offline()
    plan = set_leader(plan_of(electing), partition, 2)
    async with electing.asked(plan=plan) as screen:
        assert screen.phrase == "orders-0 lose 30 and abandon b3"


async def test_a_plan_of_another_cluster_is_refused(electing: Electing) -> None:
    electing.session.offline()
    evidence = plan_of(electing).breakglass
    assert evidence is not None
    other = Plan(
        entries=(PlanEntry(topic="orders", number=0, leader=1),),
        breakglass=evidence.model_copy(update={"cluster_id": "another"}),
    )
    async with electing.asked(plan=other) as screen:
        await screen.shows("for cluster another", "> [ Back ]")
