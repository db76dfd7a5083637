"""What the Plan screen shows of a draft: plain values, worked out in a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from breakglass.services.model import TopicPartition
    from breakglass.services.recovery.plan.check import CheckStatus
    from breakglass.services.recovery.plan.draft import Draft
    from breakglass.services.recovery.plan.make import PlanTotals
    from breakglass.services.recovery.plan.rows import PlanRow


@dataclass(frozen=True, slots=True)
class PlanView:
    """One state of the draft."""

    draft: Draft
    rows: tuple[PlanRow, ...]
    places: Mapping[TopicPartition, int]
    """Of each row."""
    totals: PlanTotals
    spoken: str
    """The digest, to be read out loud."""
    approved: tuple[str, ...]
    wanted: int
    """How many persons are to approve."""
    void: tuple[str, ...]
    """Who had agreed to an earlier digest."""
    notes: tuple[str, ...]
    statuses: Mapping[CheckStatus, int]
    """How many elections stood how when everything was read again; empty before that."""
    departing: int
    """Partitions that are treated otherwise than recommended."""

    def row(self, partition: TopicPartition) -> PlanRow | None:
        place = self.places.get(partition)
        return None if place is None else self.rows[place]
