"""A plan as lines and a table: what it elects, what that loses, and what it leaves out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from breakglass.console.documents import SCHEMA
from breakglass.console.output import columns, of_partition, print_table
from breakglass.services.recovery.guarded.subject import empty_over_unread
from breakglass.services.recovery.judgement.assessment import recovery_order
from breakglass.services.recovery.judgement.loss import unread_bound
from breakglass.services.recovery.plan.make import (
    consent_groups,
    plan_price,
    totals_of,
    verdict_on,
    why,
)
from breakglass.services.words.figures import (
    count,
    loss_text,
    partitions_text,
    total_text,
    unread_total,
)
from breakglass.services.words.inert import inert
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.guard.consent import Price
    from breakglass.services.model import TopicPartition
    from breakglass.services.recovery.plan.document import PartitionRecord, Plan
    from breakglass.services.recovery.plan.edit import PlanDifference
    from breakglass.services.recovery.plan.make import Appraisal

COLUMNS = columns(
    "Topic-partition", "Leader", "Chosen by", "Verdict", "Action", ">Loses", ">Unread", "Why"
)
GROUPED_ABOVE = 3
"""More partitions of one topic that are treated alike become one row."""


@dataclass(frozen=True, slots=True)
class PlanTableRow:
    """One partition of a plan, as the table shows it."""

    partition: TopicPartition
    leader: int | None
    """None: it is left out."""
    record: PartitionRecord | None
    """None in a bare plan."""

    @property
    def kind(self) -> tuple[object, ...]:
        """What makes two rows alike."""
        record = self.record
        if record is None:
            return (self.partition.topic, self.leader)
        what = (*verdict_on(record, self.leader), record.chosen_by, record.left_out)
        return (self.partition.topic, self.leader, *what)


def rows_of(plan: Plan, only: Collection[TopicPartition] | None = None) -> list[PlanTableRow]:
    """The elections of *plan* in the order of recovery, then what is left out.

    *only* restricts them to these partitions.
    """
    elected = [
        PlanTableRow(partition, leader, plan.records.get(partition))
        for partition, leader in plan.leaders.items()
    ]
    left = [PlanTableRow(record.partition, None, record) for record in plan.left_out]
    rows = [row for row in (*elected, *left) if only is None or row.partition in only]
    return sorted(rows, key=lambda row: (row.leader is None, recovery_order(row.partition)))


def print_plan(rows: Sequence[PlanTableRow], *, each: bool) -> None:
    """Print a row for each partition, or for each group of partitions treated alike."""
    print_table(COLUMNS, [_cells(group) for group in folded(rows, lambda row: row.kind, each=each)])


def print_facts(plan: Plan) -> None:
    """Print what holds for the whole plan: cluster, digest, totals, approvals, notes, consents."""
    facts = list(_facts(plan))
    width = max(len(name) for name, _ in facts)
    for name, fact in facts:
        print(inert(f"{name.ljust(width)}  {fact}"))


def _facts(plan: Plan) -> Iterable[tuple[str, str]]:
    evidence = plan.breakglass
    yield "digest", f"{plan.spoken_digest}  {plan.digest}"
    if evidence is None:
        yield "evidence", "none: a file in Kafka's format; it is read afresh before any election"
        yield "plan", str(totals_of(plan))
        return
    if plan.altered:
        yield "altered", "the file was changed by other means than `breakglass plan`"
    yield "cluster", evidence.cluster_id
    yield "made", time_text(evidence.made_at_ms)
    left = len(plan.left_out)
    yield "plan", f"{totals_of(plan)}" + (f"; leaves out {partitions_text(left)}" if left else "")
    for approval in plan.approvals:
        yield "approved", f"{approval.by}, {time_text(approval.at_ms)}"
    void = len(evidence.approvals) - len(plan.approvals)
    if void:
        yield "void", f"{void} approval{'' if void == 1 else 's'} of the plan as it was before"
    for note in evidence.notes:
        yield "note", note
    elections = (
        (record.evidence, leader, record.loss_of(leader).abandons)
        for partition, leader in plan.leaders.items()
        if (record := plan.records.get(partition)) is not None
    )
    for sentence in empty_over_unread(elections):
        yield "EMPTY", sentence
    for group in consent_groups(plan):
        alone = f"  (on its own: {group.why_alone})" if group.why_alone else ""
        yield "consent", f"{group.phrase}{alone}"


T = TypeVar("T")


def folded(
    rows: Iterable[T], kind: Callable[[T], Hashable], *, each: bool
) -> Iterable[Sequence[T]]:
    """Rows alike by *kind* as one group where they are many; with *each* every row on its own."""
    if each:
        return [(row,) for row in rows]
    alike: dict[Hashable, list[T]] = {}
    for row in rows:
        alike.setdefault(kind(row), []).append(row)
    return (
        group
        for members in alike.values()
        for group in ([members] if len(members) > GROUPED_ABOVE else [(row,) for row in members])
    )


def named(partitions: Sequence[TopicPartition]) -> str:
    """One partition by its name, more of one topic as ``orders-* (1,874)``."""
    if len(partitions) == 1:
        return str(partitions[0])
    return f"{partitions[0].topic}-* ({len(partitions):,})"


def _cells(group: Sequence[PlanTableRow]) -> tuple[object, ...]:
    first = group[0]
    name = named([row.partition for row in group])
    leader = None if first.leader is None else f"b{first.leader}"
    record = first.record
    if record is None:
        return (name, leader, None, None, None, "?", "?", "")
    reasons = {why(row.record, row.leader) for row in group if row.record is not None}
    return (
        name,
        leader,
        None if record.chosen_by is None else record.chosen_by.value,
        *verdict_on(record, first.leader),
        _loses(group),
        unread_total([row.record.unread for row in group if row.record]),
        reasons.pop() if len(reasons) == 1 else "various: see them with --each",
    )


def _loses(group: Sequence[PlanTableRow]) -> str:
    losses = [
        row.record.loss_of(row.leader)
        for row in group
        if row.record is not None and row.leader is not None
    ]
    if len(losses) == 1:
        return loss_text(losses[0])
    about = "~" if any(loss.approximate for loss in losses) else ""
    return about + total_text(loss.total for loss in losses) if losses else count(None)


def plan_document(plan: Plan) -> dict[str, Any]:
    """A plan as `plan show` tells it; the evidence itself is in the plan's own file."""
    evidence = plan.breakglass
    return {
        "schema": SCHEMA,
        "cluster_id": plan.cluster_id,
        "made_at_ms": None if evidence is None else evidence.made_at_ms,
        "digest": plan.digest,
        "spoken_digest": plan.spoken_digest,
        "altered": plan.altered,
        "loses": None if evidence is None else _price(plan_price(plan)),
        "approvals": [{"by": approval.by, "at_ms": approval.at_ms} for approval in plan.approvals],
        "notes": () if evidence is None else evidence.notes,
        "consents": [] if evidence is None else [group.phrase for group in consent_groups(plan)],
        "partitions": [
            {
                **of_partition(partition),
                "designated_leader": leader,
                **_recorded(plan.records.get(partition), leader),
            }
            for partition, leader in plan.leaders.items()
        ],
        "left_out": [
            {
                **of_partition(record.partition),
                "verdict": record.verdict,
                "action": record.action,
                "why": record.left_out,
            }
            for record in plan.left_out
        ],
    }


def check_document(appraisal: Appraisal, cluster_id: str) -> dict[str, Any]:
    """How each election of a plan stands."""
    return {
        "schema": SCHEMA,
        "cluster_id": cluster_id,
        "digest": appraisal.plan.digest,
        "can_all_go": appraisal.fine,
        "partitions": [
            {
                **of_partition(checked.partition),
                "designated_leader": checked.leader,
                "status": checked.status.value,
                "reason": checked.reason,
            }
            for checked in appraisal.checked
        ],
    }


def diff_document(
    before: Plan, after: Plan, differences: Iterable[PlanDifference]
) -> dict[str, Any]:
    """What two plans treat differently."""
    return {
        "schema": SCHEMA,
        "before": _head(before),
        "after": _head(after),
        "differences": [
            {
                **of_partition(difference.partition),
                "leader_before": difference.before,
                "leader_after": difference.after,
                "loss_before": difference.loss_before,
                "loss_after": difference.loss_after,
                "evidence_changed": difference.evidence_changed,
            }
            for difference in differences
        ],
    }


def _head(plan: Plan) -> dict[str, Any]:
    return {
        "cluster_id": plan.cluster_id,
        "digest": plan.digest,
        "spoken_digest": plan.spoken_digest,
        "loses": None if plan.breakglass is None else _price(plan_price(plan)),
    }


def _price(price: Price) -> dict[str, Any]:
    return {"records": price.records, "approximate": price.approximate}


def _recorded(record: PartitionRecord | None, leader: int) -> dict[str, Any]:
    """What a plan remembers of one election; nothing in a bare plan."""
    if record is None:
        return {}
    loss = record.loss_of(leader)
    verdict, action = verdict_on(record, leader)
    return {
        "chosen_by": record.chosen_by,
        "verdict": verdict,
        "action": action,
        "loses": {
            "records": loss.total,
            "committed": loss.committed,
            "unproven": loss.uncommitted,
            "approximate": loss.approximate,
        },
        "unread_at_least": unread_bound(record.evidence).at_least,
        "abandons": loss.abandons,
        "gone": record.gone,
        "why": why(record, leader),
    }
