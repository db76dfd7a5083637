"""A plan as rows."""

from __future__ import annotations

from hypothesis import given

from breakglass.services.model import PartitionEvidence
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.plan.check import Checked, CheckStatus
from breakglass.services.recovery.plan.document import Plan
from breakglass.services.recovery.plan.edit import set_leader
from breakglass.services.recovery.plan.make import make_plan
from breakglass.services.recovery.plan.rows import as_recommended, departs, plan_rows, recommended
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.plans import CLUSTER, FORK, GONE, LOSS, MADE_AT_MS, SAFE, planned


def test_a_check_of_another_leader_than_the_plans_is_disregarded() -> None:
    plan = planned(LOSS)
    of_b1 = {LOSS.partition: Checked(LOSS.partition, 1, CheckStatus.UNCHANGED)}
    assert plan_rows(plan, of_b1)[0].checked is of_b1[LOSS.partition]
    assert plan_rows(set_leader(plan, LOSS.partition, 2), of_b1)[0].checked is None


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


def test_an_election_by_hand_of_what_nobody_recommends_is_a_departure() -> None:
    plan = set_leader(planned(SAFE, FORK), FORK.partition, 1)
    assert departs(plan, plan.records[FORK.partition])
    assert left(as_recommended(plan)).keys() == {"orders-5"}
    assert left(as_recommended(plan))["orders-5"].startswith("history fork")
