"""A plan as rows: the decision for each partition, the recommendation, and the state now.

A plan keeps whether each election can be automated and how the replicas rank. So the
recommendation is known wherever the plan is: it is `make_plan` of the same assessments. A row is
a plain value, which screens keep without the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.services.guard.consent import Price
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.assessment import Action, Verb, Verdict, recovery_order
from breakglass.services.recovery.plan.document import ChosenBy
from breakglass.services.recovery.plan.edit import Decision, Partitions, decide, left_out
from breakglass.services.words.figures import loss_text, unread_text

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.check import Checked
    from breakglass.services.recovery.plan.document import PartitionRecord, Plan


NOT_RECOMMENDED = "not recommended"


def recommended(record: PartitionRecord) -> int | None:
    """The replica to elect; None: only an operator can decide."""
    return record.ranking[0] if record.automatable and record.ranking else None


def as_recommended(plan: Plan, only: Partitions = None) -> Plan:
    """*plan* with the recommendation for *only*, by default for every partition it knows."""
    wanted = None if only is None else frozenset(only)
    return decide(
        plan,
        {
            partition: _recommendation(record)
            for partition, record in plan.records.items()
            if (wanted is None or partition in wanted) and departs(plan, record)
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


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One partition of a plan."""

    partition: TopicPartition
    leader: int | None
    """None: it is left out."""
    recommended: int | None
    """None: nobody."""
    verdict: str
    """Empty, as are action and the figures, in a bare plan."""
    action: str
    loses: Price | None
    """Of electing the leader; None where nobody is elected or nothing is known yet."""
    unread: str
    chosen_by: str
    why: str
    """Why this leader, or why it is left out."""
    checked: Checked | None = None
    """How it stood when everything was read again; None: not since it was decided."""

    @property
    def departs(self) -> bool:
        """It is treated otherwise than recommended."""
        return self.leader != self.recommended


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


def verdict_on(record: PartitionRecord, leader: int | None) -> tuple[str, str]:
    """The verdict and the action for electing *leader*, who may not be the best replica."""
    best = record.ranking[0] if record.ranking else None
    if leader in (None, best) or record.verdict not in (Verdict.SAFE, Verdict.LOSS):
        return record.verdict, record.action
    assert leader is not None
    lossless = record.verdict == Verdict.SAFE and record.loss_of(leader).total == 0
    return Verdict.SAFE if lossless else Verdict.LOSS, str(Action(Verb.ELECT, leader))


def _row(plan: Plan, partition: TopicPartition, checked: Checked | None) -> PlanRow:
    leader, record = plan.leaders.get(partition), plan.records.get(partition)
    holds = checked if checked is not None and checked.leader == leader else None
    if record is None:
        return PlanRow(partition, leader, leader, "", "", None, "?", "", "", holds)
    verdict, action = verdict_on(record, leader)
    return PlanRow(
        partition,
        leader,
        recommended(record),
        verdict,
        action,
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
