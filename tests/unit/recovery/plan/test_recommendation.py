"""What a plan's own evidence recommends, and its way back there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import PartitionEvidence
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.plan.document import ChosenBy, Plan
from breakglass.services.recovery.plan.edit import exclude_all, never, set_leader
from breakglass.services.recovery.plan.make import make_plan
from breakglass.services.recovery.plan.rows import as_recommended, departs, recommended
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.plans import (
    CLUSTER,
    EVERY_KIND,
    FORK,
    GONE,
    LOSS,
    MADE_AT_MS,
    SAFE,
    planned,
)


def left(plan: Plan) -> dict[str, str]:
    return {str(record.partition): record.left_out for record in plan.left_out}


@given(partitions())
def test_the_recommendation_is_what_a_plan_of_the_same_assessments_elects(
    evidence: PartitionEvidence,
) -> None:
    plan = make_plan([assess(evidence, GONE)], CLUSTER, MADE_AT_MS)
    record = plan.records[evidence.partition]
    assert recommended(record) == plan.leaders.get(evidence.partition)
    assert not departs(plan, record)
    assert as_recommended(plan) is plan


@given(st.sets(st.sampled_from(EVERY_KIND).map(lambda evidence: evidence.partition)))
def test_every_departure_leads_back_to_the_recommendation(gone: set[object]) -> None:
    plan = planned(*EVERY_KIND)
    partitions = [leader for leader in plan.leaders if leader in gone]
    edited = never(exclude_all(plan, partitions), 2)
    back = as_recommended(edited)
    assert back.leaders == plan.leaders
    assert back.digest == plan.digest


def test_an_election_by_hand_of_what_nobody_recommends_is_a_departure() -> None:
    plan = set_leader(planned(SAFE, FORK), FORK.partition, 1)
    assert departs(plan, plan.records[FORK.partition])
    assert left(as_recommended(plan)).keys() == {"orders-5"}
    assert left(as_recommended(plan))["orders-5"].startswith("history fork")


def test_some_partitions_alone_go_back() -> None:
    plan = exclude_all(planned(SAFE, LOSS), [SAFE.partition, LOSS.partition])
    assert list(as_recommended(plan, {LOSS.partition}).leaders) == [LOSS.partition]


def test_what_goes_back_is_chosen_by_rank_again() -> None:
    plan = as_recommended(set_leader(planned(LOSS), LOSS.partition, 2))
    assert plan.records[LOSS.partition].chosen_by is ChosenBy.RANK
