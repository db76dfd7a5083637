"""The JSON forms of what the plan commands report. Each has a schema version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from breakglass.console.documents import SCHEMA
from breakglass.services.recovery.judgement.loss import unread_bound
from breakglass.services.recovery.plan.make import consent_groups, plan_price
from breakglass.services.recovery.plan.rows import verdict_on, why

if TYPE_CHECKING:
    from breakglass.services.guard.consent import Price
    from breakglass.services.recovery.plan.appraisal import Appraisal
    from breakglass.services.recovery.plan.document import PartitionRecord, Plan
    from breakglass.services.recovery.plan.edit import PlanDifference


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
                "topic": partition.topic,
                "partition": partition.partition,
                "designated_leader": leader,
                **_recorded(plan.records.get(partition), leader),
            }
            for partition, leader in plan.leaders.items()
        ],
        "left_out": [
            {
                "topic": record.partition.topic,
                "partition": record.partition.partition,
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
                "topic": checked.partition.topic,
                "partition": checked.partition.partition,
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
                "topic": difference.partition.topic,
                "partition": difference.partition.partition,
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
