"""What the evidence of a plan recommends, and where the plan departs from it.

A plan keeps of each partition whether its election is automatable and how its replicas rank, so
the recommendation is known wherever the plan is: `make_plan` of the same assessments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakglass.services.recovery.plan.document import ChosenBy
from breakglass.services.recovery.plan.edit import Decision, Partitions, decide, left_out

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import PartitionRecord, Plan

NOT_RECOMMENDED = "not recommended"


def recommended(record: PartitionRecord) -> int | None:
    """The replica to elect; None: nobody without an operator's decision."""
    return record.ranking[0] if record.automatable and record.ranking else None


def as_recommended(plan: Plan, only: Partitions = None) -> Plan:
    """*plan* with the recommendation for *only*, by default for every partition it knows."""
    return decide(
        plan,
        {
            partition: _recommendation(record)
            for partition, record in plan.records.items()
            if (only is None or partition in only) and departs(plan, record)
        },
    )


def departs(plan: Plan, record: PartitionRecord) -> bool:
    """Whether *plan* treats the partition of *record* otherwise than recommended."""
    return plan.leaders.get(record.partition) != recommended(record)


def _recommendation(record: PartitionRecord) -> Decision:
    leader = recommended(record)
    if leader is not None:
        return Decision(leader, ChosenBy.RANK)
    return left_out("; ".join(record.reasons[:1]) or NOT_RECOMMENDED)
