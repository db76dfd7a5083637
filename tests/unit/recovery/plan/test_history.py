"""Edits that are undone and redone, and what each of them says of itself."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.recovery.plan.document import Plan
from breakglass.services.recovery.plan.edit import exclude, least_loss, never, set_leader
from breakglass.services.recovery.plan.history import REMEMBERED, PlanHistory
from breakglass.services.recovery.plan.notes import approve
from breakglass.services.recovery.plan.rows import as_recommended
from tests.kit.plans import add_note
from tests.unit.recovery.plans import HALF_READ, LOSS, SAFE, planned

EDITS: dict[str, Callable[[Plan], Plan]] = {
    "b2 by hand": lambda plan: set_leader(plan, LOSS.partition, 2),
    "b1 by hand": lambda plan: set_leader(plan, LOSS.partition, 1),
    "an unread one": lambda plan: set_leader(plan, HALF_READ.partition, 2),
    "without orders-1": lambda plan: exclude(plan, SAFE.partition),
    "never b2": lambda plan: never(plan, 2),
    "least loss": least_loss,
    "as recommended": as_recommended,
    "a note": lambda plan: add_note(plan, "[bold]ask ada"),
}
steps = st.lists(st.sampled_from([*EDITS, "undo", "redo"]), max_size=25)


@given(steps)
def test_undo_and_redo_lead_through_every_plan_that_ever_was(names: list[str]) -> None:
    """Held against a list and a place in it."""
    plan = planned(SAFE, LOSS, HALF_READ)
    history, model, place = PlanHistory.of(plan), [plan], 0
    for name in names:
        if name == "undo":
            history, place = history.undo(), max(place - 1, 0)
        elif name == "redo":
            history, place = history.redo(), min(place + 1, len(model) - 1)
        else:
            before, edited = history.present, EDITS[name](history.present)
            history = history.edited(edited, name)
            if edited is not before:
                model, place = [*model[: place + 1], edited], place + 1
        assert history.present == model[place]
        assert history.present.digest == model[place].digest
        assert (history.last is None, history.next is None) == (place == 0, place == len(model) - 1)


def test_an_approval_is_no_step_that_undo_takes_back() -> None:
    before = planned(SAFE, LOSS)
    edited = set_leader(before, LOSS.partition, 2)
    history = PlanHistory.of(before).edited(edited, "b2")
    approved = history.amended(approve(edited, "ada", 5))
    assert [approval.by for approval in approved.present.approvals] == ["ada"]
    assert approved.undo().present == before
    assert [approval.by for approval in approved.undo().redo().present.approvals] == ["ada"]


def test_only_so_many_edits_are_remembered() -> None:
    history = PlanHistory.of(planned(LOSS))
    for number in range(REMEMBERED + 20):
        broker = 2 - number % 2
        history = history.edited(set_leader(history.present, LOSS.partition, broker), "one")
    assert (len(history.plans), len(history.edits)) == (REMEMBERED + 1, REMEMBERED)
    for _ in range(REMEMBERED + 5):
        history = history.undo()
    assert (history.place, history.last) == (0, None)


def test_plans_of_the_past_are_kept_without_what_was_worked_out_of_them() -> None:
    before = planned(SAFE, LOSS)
    assert before.digest
    history = PlanHistory.of(before).edited(set_leader(before, LOSS.partition, 2), "b2")
    assert "digest" not in history.plans[0].__dict__
    assert history.undo().present.digest == before.digest
