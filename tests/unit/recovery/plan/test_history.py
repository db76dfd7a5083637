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


def test_an_edit_says_what_it_changed_before_and_after() -> None:
    history = PlanHistory.of(planned(SAFE, LOSS)).edited(
        set_leader(planned(SAFE, LOSS), LOSS.partition, 2), "orders-3: b1 -> b2"
    )
    assert str(history.last) == "orders-3: b1 -> b2; loses 50 -> 25"


def test_an_edit_that_loses_the_same_says_so() -> None:
    before = planned(SAFE, LOSS)
    history = PlanHistory.of(before).edited(add_note(before, "ask ada"), "a note")
    assert str(history.last) == "a note; loses 50 as before"


def test_an_unknown_loss_is_said_as_such() -> None:
    before = planned(HALF_READ)
    after = set_leader(before, HALF_READ.partition, 2)
    assert "loses 0 -> unknown" in str(PlanHistory.of(before).edited(after, "by hand").last)


def test_what_is_left_out_counts_as_one_election_less() -> None:
    before = planned(SAFE, LOSS)
    edit = PlanHistory.of(before).edited(exclude(before, LOSS.partition), "out").last
    assert str(edit).startswith("out; elects 2 -> 1; loses 50 -> 0")


def test_an_edit_says_whose_approvals_it_voids_and_undoing_it_brings_them_back() -> None:
    approved = approve(approve(planned(LOSS), "ada", 5), "grace", 6)
    history = PlanHistory.of(approved).edited(set_leader(approved, LOSS.partition, 2), "b2")
    assert str(history.last).endswith("approvals void: ada, grace")
    assert history.present.approvals == ()
    assert [approval.by for approval in history.undo().present.approvals] == ["ada", "grace"]


def test_a_second_edit_does_not_void_the_same_approvals_again() -> None:
    approved = approve(planned(SAFE, LOSS), "ada", 5)
    first = set_leader(approved, LOSS.partition, 2)
    history = PlanHistory.of(approved).edited(first, "b2")
    history = history.edited(exclude(first, SAFE.partition), "out")
    assert history.last is not None
    assert history.last.voided == ()


def test_an_approval_is_no_step_that_undo_takes_back() -> None:
    before = planned(SAFE, LOSS)
    edited = set_leader(before, LOSS.partition, 2)
    history = PlanHistory.of(before).edited(edited, "b2")
    approved = history.amended(approve(edited, "ada", 5))
    assert [approval.by for approval in approved.present.approvals] == ["ada"]
    assert approved.undo().present == before
    assert [approval.by for approval in approved.undo().redo().present.approvals] == ["ada"]


def test_an_edit_after_undo_forgets_what_was_undone() -> None:
    before = planned(SAFE, LOSS)
    history = PlanHistory.of(before).edited(set_leader(before, LOSS.partition, 2), "b2").undo()
    history = history.edited(exclude(history.present, SAFE.partition), "out")
    assert history.next is None
    assert [edit.what for edit in history.edits] == ["out"]


def test_what_changes_nothing_is_no_edit() -> None:
    plan = planned(SAFE)
    history = PlanHistory.of(plan)
    assert history.edited(least_loss(plan), "least loss") is history


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
