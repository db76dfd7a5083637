"""A plan as a text to be edited by hand, in an editor of the operator's own.

The form is JSON, and the document of KIP-1275: a line for each election with what helps to
decide about it, then the partitions that are left out. The evidence is not in it, so no slip of
the hand falsifies it. JSON has no comments: what explains the form stands under keys that are
read over. `services.recovery.plan.read_back` takes the text back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from breakglass.services.recovery.judgement.assessment import refusal
from breakglass.services.recovery.plan.notes import notes_of
from breakglass.services.recovery.plan.rows import plan_rows
from breakglass.services.words.figures import loss_text

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import PartitionRecord, Plan
    from breakglass.services.recovery.plan.rows import PlanRow

HELP = (
    'To choose another leader, change "designatedLeader" to a broker of "canLead", which says '
    "what each of them loses.",
    "To leave a partition out, delete its line, or move it to leftOut and say why.",
    'To elect a partition of leftOut, move its line to partitions and add "designatedLeader".',
    "Notes are yours. Everything else is for reading: what is changed there is ignored.",
    "To change nothing, leave without saving.",
)


def render_form(plan: Plan) -> str:
    """*plan*, which has evidence, as a text to be edited."""
    rows = plan_rows(plan)
    elected = [_elected(plan, row) for row in rows if row.leader is not None]
    left = [_left(plan, row) for row in rows if row.leader is None]
    return (
        f'{{"help": {_lines(HELP)},\n'
        f' "cluster_id": {printable_json(plan.cluster_id)},\n'
        f' "digest": {printable_json(plan.spoken_digest)},\n'
        f' "notes": {_lines(notes_of(plan))},\n'
        f' "partitions": {_lines(elected)},\n'
        f' "leftOut": {_lines(left)}}}\n'
    )


def printable_json(value: object) -> str:
    """*value* as JSON that an editor shows as it is: only what cannot be printed is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(
        [
            character if character.isprintable() else json.dumps(character)[1:-1]
            for character in text
        ]
    )


def _lines(values: Iterable[object]) -> str:
    body = ",\n  ".join([printable_json(value) for value in values])
    return f"[\n  {body}\n ]" if body else "[]"


def _elected(plan: Plan, row: PlanRow) -> dict[str, object]:
    return {
        **_named(row),
        "designatedLeader": row.leader,
        "verdict": row.verdict,
        "loses": "?" if row.loses is None else str(row.loses),
        "unread": row.unread,
        "recommended": row.recommended,
        "canLead": _choices(plan.records[row.partition]),
    }


def _left(plan: Plan, row: PlanRow) -> dict[str, object]:
    choices = _choices(plan.records[row.partition])
    return {**_named(row), "why": row.why, "verdict": row.verdict, "canLead": choices}


def _named(row: PlanRow) -> dict[str, object]:
    return {"topic": row.partition.topic, "partition": row.partition.partition}


def _choices(record: PartitionRecord) -> dict[str, str]:
    """What each replica that can be elected loses."""
    able = [broker for broker in record.ranking if not refusal(record.evidence, broker)]
    return {str(broker): loss_text(record.loss_of(broker)) for broker in able}
