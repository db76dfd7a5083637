"""What a whole plan does, in figures and in one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.services.guard.consent import Price
from breakglass.services.recovery.plan.make import plan_price
from breakglass.services.words.figures import partitions_text, unread_told, unread_total

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import Plan


@dataclass(frozen=True, slots=True)
class PlanTotals:
    """``elects 3 partitions, loses 50, b3 unread (at least 25)``."""

    elected: int
    left_out: int
    price: Price | None
    """What it loses; None for a bare plan, of which that is not known."""
    unread: str
    """What only unread replicas may hold: ``0``, ``b3``, ``b3 >= 25``, ``?``."""
    unread_told: str = ""
    """The same in a sentence."""

    def __str__(self) -> str:
        counted = f"elects {partitions_text(self.elected)}"
        if self.price is None or not self.elected:
            return counted
        return f"{counted}, loses {self.price}, {self.unread_told}"


def totals_of(plan: Plan) -> PlanTotals:
    """Sum up *plan*."""
    if plan.breakglass is None:
        return PlanTotals(len(plan.leaders), 0, None, "?")
    bounds = [plan.records[one].unread for one in plan.leaders]
    left = len(plan.records) - len(plan.leaders)
    return PlanTotals(
        len(plan.leaders), left, plan_price(plan), unread_total(bounds), unread_told(bounds)
    )
