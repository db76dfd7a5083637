"""Notes that persons leave in a plan for one another: not part of its digest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from breakglass.services.errors import UsageError

if TYPE_CHECKING:
    from breakglass.services.recovery.plan.document import Plan

NOTES = 100
"""At most so many in a plan."""
NOTE_LENGTH = 1_000
"""Characters of one."""


def add_note(plan: Plan, note: str) -> Plan:
    """*plan* with one more note.

    Raises:
        UsageError: it is empty or too long, there are too many, or the plan is a bare one.
    """
    return with_notes(plan, (*notes_of(plan), note))


def remove_note(plan: Plan, place: int) -> Plan:
    """*plan* without the note at *place*, counted from 0.

    Raises:
        UsageError: there is no such note.
    """
    notes = notes_of(plan)
    if not 0 <= place < len(notes):
        raise UsageError(f"The plan has {len(notes)} notes: there is none at {place + 1}.")
    return with_notes(plan, (*notes[:place], *notes[place + 1 :]))


def with_notes(plan: Plan, notes: Sequence[str]) -> Plan:
    """*plan* with *notes* in place of those it had.

    Raises:
        UsageError: as `add_note`.
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
    """The notes of *plan*, oldest first; none in a bare one."""
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
