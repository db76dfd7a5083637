"""Agreement of persons to one digest of a plan, kept in the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from breakglass.services.errors import UsageError
from breakglass.services.recovery.plan.document import Approval, same_person

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import Plan

NAME_LENGTH = 100
WANTED = 2
"""Persons that look at a plan before it is executed: four eyes."""


def approve(plan: Plan, by: str, at_ms: int) -> Plan:
    """*plan* with the agreement of *by* to its present digest.

    One person counts once: who has agreed to this digest already changes nothing.

    Raises:
        ValueError: a bare plan has no evidence to agree to.
        UsageError: the name is empty, too long or has characters that cannot be printed.
    """
    if plan.breakglass is None:
        raise ValueError("a bare plan has no evidence to approve")
    name = " ".join(by.split())
    if not name or len(name) > NAME_LENGTH or not name.isprintable():
        raise UsageError(f"Who approves needs a name of 1 to {NAME_LENGTH} printable characters.")
    if any(same_person(name, one.by) for one in plan.approvals):
        return plan
    given = Approval(by=name, at_ms=at_ms, digest=plan.digest)
    return plan.with_evidence(approvals=(*plan.breakglass.approvals, given))


def voided(plan: Plan) -> tuple[str, ...]:
    """Who agreed to *plan* as it was before, and not to what it is now."""
    given = plan.breakglass.approvals if plan.breakglass else ()
    names = dict.fromkeys(one.by for one in given if one.digest != plan.digest)
    return tuple(
        [name for name in names if not any(same_person(name, one.by) for one in plan.approvals)]
    )
