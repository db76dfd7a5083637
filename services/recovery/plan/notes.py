"""What persons add to a plan: notes for one another, and their approval of one digest.

Neither is part of the digest. An approval counts only while the digest of the plan is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from breakglass.services.errors import UsageError
from breakglass.services.recovery.plan.document import Approval, same_person

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import Plan


NOTES = 100
"""The most notes that a plan may have."""
NOTE_LENGTH = 1_000
"""Characters of a note."""


def with_notes(plan: Plan, notes: Sequence[str]) -> Plan:
    """*plan* with *notes* in place of its present notes.

    Raises:
        UsageError: a note is empty or too long, there are too many, or the plan is a bare one.
    """
    if tuple(notes) == notes_of(plan):
        return plan
    kept = tuple([note.strip() for note in notes])
    if plan.breakglass is None:
        raise UsageError("A file in Kafka's form has no place for notes: read its evidence first.")
    fault = next((fault for note in kept if (fault := note_fault(note))), "") or number_fault(kept)
    if fault:
        raise UsageError(f"{fault[:1].upper()}{fault[1:]}.")
    return plan.with_evidence(notes=kept)


def notes_of(plan: Plan) -> tuple[str, ...]:
    """The notes of *plan*, oldest first; none in a bare plan."""
    return plan.breakglass.notes if plan.breakglass else ()


def note_fault(note: str) -> str:
    """What is wrong with one *note*; empty if nothing is."""
    if not note.strip():
        return "a note has no words: write some or drop it"
    return text_fault(note, "a note")


def text_fault(text: str, what: str) -> str:
    """Why *text*, which messages call *what*, cannot be kept in a plan; empty if it can."""
    if len(text) > NOTE_LENGTH:
        return f"{what} has {len(text):,} characters and may have {NOTE_LENGTH:,}: shorten it"
    if any("\ud800" <= character <= "\udfff" for character in text):
        return f"{what} has half a character (a lone surrogate): write it again"
    return ""


def number_fault(notes: Sequence[object]) -> str:
    """Whether there are too many *notes*; empty if not."""
    if len(notes) <= NOTES:
        return ""
    return f"there are {len(notes):,} notes and {NOTES} are kept: remove some"


NAME_LENGTH = 100
WANTED = 2
"""Persons that have to approve a plan before it runs: four eyes."""


def approve(plan: Plan, by: str, at_ms: int) -> Plan:
    """*plan* with the agreement of *by* to its present digest.

    One person counts once: a second approval by the same person changes nothing.

    Raises:
        ValueError: a bare plan has no evidence to agree to.
        UsageError: the name is empty, too long or has characters that cannot be printed.
    """
    if plan.breakglass is None:
        raise ValueError("a bare plan has no evidence to approve")
    name = " ".join(by.split())
    if not name or len(name) > NAME_LENGTH or not name.isprintable():
        raise UsageError(f"Who approves needs a name of 1 to {NAME_LENGTH} printable characters.")
    if any(same_person(name, approval.by) for approval in plan.approvals):
        return plan
    given = Approval(by=name, at_ms=at_ms, digest=plan.digest)
    return plan.with_evidence(approvals=(*plan.breakglass.approvals, given))


def voided(plan: Plan) -> tuple[str, ...]:
    """Who agreed to *plan* as it was before, and not to what it is now."""
    given = plan.breakglass.approvals if plan.breakglass else ()
    names = dict.fromkeys(approval.by for approval in given if approval.digest != plan.digest)
    return tuple(
        [
            name
            for name in names
            if not any(same_person(name, approval.by) for approval in plan.approvals)
        ]
    )
