"""From a draft to what is shown of it. Imports the plan, so threads import it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakglass.screens.plan.view import PlanView
from breakglass.services.recovery.plan.draft import tally
from breakglass.services.recovery.plan.make import totals_of
from breakglass.services.recovery.plan.notes import WANTED, notes_of, voided
from breakglass.services.recovery.plan.rows import plan_rows

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.draft import Draft


def view_of(draft: Draft) -> PlanView:
    """Work out what is shown of *draft*: some tens of milliseconds for 2,000 partitions."""
    plan = draft.plan
    rows = plan_rows(plan, draft.checked)
    return PlanView(
        draft,
        rows,
        {row.partition: place for place, row in enumerate(rows)},
        totals_of(plan),
        plan.spoken_digest,
        tuple([approval.by for approval in plan.approvals]),
        WANTED,
        voided(plan),
        notes_of(plan),
        tally([row.checked for row in rows if row.checked is not None]),
        sum(row.departs for row in rows),
    )
