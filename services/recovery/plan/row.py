"""One partition of a plan as a plain value, which screens keep without the plan itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.services.guard.consent import Price
from breakglass.services.model import TopicPartition

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.check import Checked


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
