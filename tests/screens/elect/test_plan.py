"""The elections of a plan on the screen: its leaders, its digest, and what it cannot hold."""

from __future__ import annotations

from breakglass.services.recovery.plan.document import Plan, PlanEntry
from breakglass.services.recovery.plan.edit import set_leader
from breakglass.services.recovery.plan.make import make_plan
from breakglass.services.recovery.plan.notes import approve
from tests.kit.fake_metadata import CLUSTER_ID
from tests.screens.elect.conftest import Electing


async def test_a_plan_is_elected_at_its_price_as_far_as_it_holds_here_and_is_journalled(
    electing: Electing,
) -> None:
    first, second, _ = electing.session.offline(count=3)
    plan = make_plan(electing.incident(3).assessments(), CLUSTER_ID, 1_700_000_000_000)
    by_hand = set_leader(plan, first, 2)
    evidence = plan.breakglass
    assert evidence is not None
    other = Plan(
        entries=(PlanEntry(topic="orders", number=0, leader=1),),
        breakglass=evidence.model_copy(update={"cluster_id": "another"}),
    )
    agreed = approve(approve(plan, "ada", 1), "bob", 2)
    async with electing.asked(plan=by_hand) as screen:
        await screen.shows("orders-0 lose 30")
        await screen.asks(plan=other)
        await screen.shows("for cluster another", "> [ Back ]")
        electing.cluster.hold(1, second, (0, 140))
        await screen.asks(plan=plan)
        await screen.shows("Elect 2 partitions", "was 100 and is 140")
        electing.cluster.hold(1, second, (0, 100))
        await screen.asks(plan=agreed)
        await screen.shows("Elect 3 partitions", plan.spoken_digest, "by ada and bob.")
        await screen.elect()
    (journal,) = [one for one in electing.session.journals() if one.result == "succeeded"]
    assert journal.plan is not None
    assert journal.plan.payload["digest"] == plan.digest
    assert electing.session.leaders() == {1}
