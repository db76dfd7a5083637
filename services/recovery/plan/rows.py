"""A plan as rows: what happens to each partition, what was recommended, and how it stands now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from breakglass.services.guard.consent import Price
from breakglass.services.recovery.judgement.precedence import recovery_order
from breakglass.services.recovery.plan.recommendation import recommended
from breakglass.services.recovery.plan.row import PlanRow
from breakglass.services.words.figures import loss_text, unread_text

if TYPE_CHECKING:
    from breakglass.services.model import TopicPartition
    from breakglass.services.recovery.plan.check import Checked
    from breakglass.services.recovery.plan.document import PartitionRecord, Plan


def plan_rows(
    plan: Plan, checked: Mapping[TopicPartition, Checked] | None = None
) -> tuple[PlanRow, ...]:
    """The partitions of *plan* in the order of recovery, those left out in their places.

    *checked* is how elections stood; one of another leader than the plan's is disregarded.
    """
    found = checked or {}
    partitions = sorted({**plan.leaders, **plan.records}, key=recovery_order)
    return tuple([_row(plan, partition, found.get(partition)) for partition in partitions])


def why(record: PartitionRecord, leader: int | None) -> str:
    """Why *leader* was chosen, or why the partition is left out."""
    if leader is None:
        return record.left_out
    if record.chosen_by is None or record.chosen_by.value == "rank":
        return record.reasons[0] if record.reasons else ""
    best = record.ranking[0]
    if best == leader:
        return f"b{leader} ranks first"
    return f"over b{best}, which ranks first and loses {loss_text(record.loss_of(best))}"


def _row(plan: Plan, partition: TopicPartition, checked: Checked | None) -> PlanRow:
    leader, record = plan.leaders.get(partition), plan.records.get(partition)
    holds = checked if checked is not None and checked.leader == leader else None
    if record is None:
        return PlanRow(partition, leader, leader, "", "", None, "?", "", "", holds)
    return PlanRow(
        partition,
        leader,
        recommended(record),
        record.verdict,
        record.action,
        _price(record, leader),
        unread_text(record.unread),
        record.chosen_by.value if record.chosen_by else "",
        why(record, leader),
        holds,
    )


def _price(record: PartitionRecord, leader: int | None) -> Price | None:
    if leader is None:
        return None
    loss = record.loss_of(leader)
    return Price(loss.total, loss.approximate)
