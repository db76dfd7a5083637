"""The edits of a plan, one after the other, to be undone and redone. A pure value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from breakglass.services.recovery.plan.make import PlanTotals, totals_of
from breakglass.services.recovery.plan.notes import voided

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import Plan

REMEMBERED = 100
"""Edits that can be undone; older edits stay."""


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit, in words and figures."""

    what: str
    """``orders-3: b1 -> b2``, ``never b4: 14 partitions``."""
    before: PlanTotals
    after: PlanTotals
    voided: tuple[str, ...] = ()
    """Persons whose approvals of the earlier plan are void."""

    def __str__(self) -> str:
        """``orders-3: b1 -> b2; loses 50 -> 25; approvals void: ada``."""
        before, after = self.before, self.after
        changes = [
            ("elects", f"{before.elected:,}", f"{after.elected:,}"),
            ("loses", _price(before), _price(after)),
            ("unread", before.unread, after.unread),
        ]
        moved = [f"{name} {old} -> {new}" for name, old, new in changes if old != new]
        parts = [self.what, *(moved or [f"loses {_price(after)} as before"])]
        if self.voided:
            parts.append(f"approvals void: {', '.join(self.voided)}")
        return "; ".join(parts)


def _price(totals: PlanTotals) -> str:
    return "?" if totals.price is None else str(totals.price)


@dataclass(frozen=True, slots=True)
class PlanHistory:
    """A plan as it is, as it was, and as it was before edits were undone."""

    plans: tuple[Plan, ...]
    edits: tuple[Edit, ...] = ()
    """``edits[n]`` led from ``plans[n]`` to ``plans[n + 1]``."""
    place: int = 0
    """Where in ``plans`` the present is."""

    @classmethod
    def of(cls, plan: Plan) -> PlanHistory:
        """*plan*, to which nothing has been done yet."""
        return cls((plan,))

    @property
    def present(self) -> Plan:
        return self.plans[self.place]

    @property
    def last(self) -> Edit | None:
        """The edit that made the present; None: there is nothing to undo."""
        return self.edits[self.place - 1] if self.place else None

    @property
    def next(self) -> Edit | None:
        """The edit that was undone; None: there is nothing to redo."""
        return self.edits[self.place] if self.place < len(self.edits) else None

    def edited(self, plan: Plan, what: str) -> PlanHistory:
        """The present becomes *plan*, by *what*; edits that were undone are dropped.

        Itself if *plan* is the present one, for nothing was edited.
        """
        before = self.present
        if plan is before:
            return self
        void = tuple([name for name in voided(plan) if name not in voided(before)])
        totals = self.last.after if self.last else totals_of(before)
        edit = Edit(what, totals, totals_of(plan), void)
        plans = (*self.plans[: self.place], before.packed(), plan)[-REMEMBERED - 1 :]
        edits = (*self.edits[: self.place], edit)[-REMEMBERED:]
        return PlanHistory(plans, edits, len(edits))

    def amended(self, plan: Plan) -> PlanHistory:
        """*plan* in place of the present one, as no step of its own: an approval is not undone."""
        return replace(self, plans=(*self.plans[: self.place], plan, *self.plans[self.place + 1 :]))

    def undo(self) -> PlanHistory:
        """The plan before the last edit; itself if there is none."""
        return replace(self, place=max(self.place - 1, 0))

    def redo(self) -> PlanHistory:
        """The plan after the edit that was undone last; itself if there is none."""
        return replace(self, place=min(self.place + 1, len(self.edits)))
