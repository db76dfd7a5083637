"""Notes in a plan."""

from __future__ import annotations

import pytest

from breakglass.services.errors import UsageError
from breakglass.services.recovery.plan.document import Plan, PlanEntry
from breakglass.services.recovery.plan.file import parse_plan
from breakglass.services.recovery.plan.notes import (
    NOTE_LENGTH,
    NOTES,
    notes_of,
    with_notes,
)
from tests.kit.plans import add_note, render_plan
from tests.unit.recovery.plans import SAFE, planned

HOSTILE = "[red]\x1b]0;gone\x07 \u202eeruces\nsecond line"


def test_notes_are_added_and_removed_and_do_not_change_the_digest() -> None:
    plan = add_note(add_note(planned(SAFE), "one"), " two ")
    assert notes_of(plan) == ("one", "two")
    assert notes_of(with_notes(plan, ("two",))) == ("two",)
    assert plan.digest == planned(SAFE).digest


def test_a_hostile_note_is_kept_to_the_letter() -> None:
    plan = parse_plan(render_plan(add_note(planned(SAFE), HOSTILE)), "plan.json")
    assert notes_of(plan) == (HOSTILE,)


@pytest.mark.parametrize(
    ("note", "message"),
    [
        ("  ", "A note has no words"),
        ("x" * (NOTE_LENGTH + 1), "A note has 1,001 characters and may have 1,000"),
        ("half \ud800", "A note has half a character"),
    ],
)
def test_what_is_no_note_is_refused(note: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        add_note(planned(SAFE), note)


def test_notes_are_bounded_in_number() -> None:
    plan = with_notes(planned(SAFE), [f"note {number}" for number in range(NOTES)])
    with pytest.raises(UsageError, match="101 notes and 100 are kept"):
        add_note(plan, "one more")


def test_a_bare_plan_has_no_place_for_notes() -> None:
    bare = Plan(entries=(PlanEntry(topic="orders", number=1, leader=2),))
    assert notes_of(bare) == ()
    with pytest.raises(UsageError, match="no place for notes"):
        add_note(bare, "one")
