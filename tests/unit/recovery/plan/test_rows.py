"""A plan as rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import PartitionEvidence
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.plan.check import Checked, CheckStatus
from breakglass.services.recovery.plan.document import Plan
from breakglass.services.recovery.plan.edit import (
    exclude,
    exclude_all,
    never,
    set_leader,
)
from breakglass.services.recovery.plan.make import make_plan
from breakglass.services.recovery.plan.rows import as_recommended, departs, plan_rows, recommended
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.plans import (
    CLUSTER,
    EVERY_KIND,
    FORK,
    GONE,
    INTERNAL,
    LOSS,
    MADE_AT_MS,
    SAFE,
    planned,
)


def test_a_row_says_where_it_departs_from_the_recommendation() -> None:
    rows = plan_rows(set_leader(exclude(planned(SAFE, LOSS, INTERNAL), SAFE.partition),
                                LOSS.partition, 2))  # fmt: skip
    assert [(str(row.partition), row.departs) for row in rows] == [
        ("__consumer_offsets-0", False),
        ("orders-1", True),
        ("orders-3", True),
    ]
    assert [row.why for row in rows[1:]] == [
        "left out by hand",
        "over b1, which ranks first and loses 50",
    ]
    assert rows[1].loses is None


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


@given(st.sets(st.sampled_from(EVERY_KIND).map(lambda evidence: evidence.partition)))
def test_every_departure_leads_back_to_the_recommendation(gone: set[object]) -> None:
    plan = planned(*EVERY_KIND)
    partitions = [leader for leader in plan.leaders if leader in gone]
    edited = never(exclude_all(plan, partitions), 2)
    back = as_recommended(edited)
    assert back.leaders == plan.leaders
    assert back.digest == plan.digest
    if partitions:
        part = as_recommended(exclude_all(plan, partitions), {partitions[0]})
        assert part.leaders.keys() == {*plan.leaders} - {*partitions[1:]}


def test_an_election_by_hand_of_what_nobody_recommends_is_a_departure() -> None:
    plan = set_leader(planned(SAFE, FORK), FORK.partition, 1)
    assert departs(plan, plan.records[FORK.partition])
    assert left(as_recommended(plan)).keys() == {"orders-5"}
    assert left(as_recommended(plan))["orders-5"].startswith("history fork")
