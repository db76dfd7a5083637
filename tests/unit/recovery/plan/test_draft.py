"""A plan on the table: what must be read again, what is saved, and what keeps it from elections."""

from __future__ import annotations

from pathlib import Path

from breakglass.services.model import TopicPartition
from breakglass.services.recovery.plan.check import CheckStatus
from breakglass.services.recovery.plan.document import Plan, PlanEntry
from breakglass.services.recovery.plan.draft import FROM_EDITOR, Draft, open_plan, save_plan
from breakglass.services.recovery.plan.edit import exclude, least_loss, set_leader
from breakglass.services.recovery.plan.notes import approve
from tests.unit.recovery.plan.test_present import LONGER, present
from tests.unit.recovery.plans import LOSS, SAFE, planned


def test_a_plan_just_made_can_be_elected_and_is_in_no_file() -> None:
    draft = Draft.made(planned(SAFE, LOSS))
    assert (draft.barrier, draft.unsaved) == ("", True)


def test_a_plan_out_of_a_file_waits_until_everything_is_read_again(tmp_path: Path) -> None:
    save_plan(planned(SAFE, LOSS), tmp_path / "plan.json", None)
    draft = Draft.read(*open_plan(tmp_path / "plan.json"))
    assert draft.barrier == "it was opened from a file: read everything again"
    assert not draft.unsaved
    held = draft.held_against(present(draft.plan, SAFE, LOSS))
    assert held.barrier == ""
    assert {checked.status for checked in held.checked.values()} == {CheckStatus.UNCHANGED}


def test_a_plan_edited_as_a_text_waits_until_everything_is_read_again() -> None:
    plan = planned(SAFE, LOSS)
    draft = Draft.made(plan).edited(least_loss(plan), "in an editor", FROM_EDITOR)
    assert draft.barrier == "it was edited as a text: read everything again"
    assert draft.undone().barrier == draft.barrier
    assert draft.held_against(present(plan, SAFE, LOSS)).barrier == ""


def test_a_text_that_was_not_changed_makes_nothing_stale() -> None:
    plan = planned(SAFE)
    draft = Draft.made(plan)
    assert draft.edited(plan, "in an editor", FROM_EDITOR) is draft


def test_an_edit_in_the_console_leaves_what_was_read_as_it_is() -> None:
    plan = planned(SAFE, LOSS)
    held = Draft.made(plan).held_against(present(plan, SAFE, LOSS))
    edited = held.edited(set_leader(plan, LOSS.partition, 2), "by hand")
    assert edited.barrier == ""


def test_what_elects_nobody_is_not_begun() -> None:
    plan = exclude(planned(SAFE), SAFE.partition)
    assert Draft.made(plan).barrier == "it elects nobody"


def test_partitions_that_were_not_read_again_keep_it_from_elections() -> None:
    plan = planned(SAFE, LOSS)
    draft = Draft.made(plan).held_against(present(plan, SAFE, unheard=(LOSS,)))
    assert draft.barrier == "it was read again but for 1 of its partitions: read everything again"


def test_evidence_of_now_is_taken_as_an_edit_that_can_be_undone() -> None:
    plan = planned(SAFE, LOSS)
    now = present(plan, LONGER, LOSS)
    draft = Draft.made(plan).held_against(now)
    assert draft.checked[SAFE.partition].status is CheckStatus.CHANGED
    renewed = draft.renewed(now)
    assert renewed.checked[SAFE.partition].status is CheckStatus.UNCHANGED
    assert renewed.plan.leaders[SAFE.partition] == 1
    back = renewed.undone()
    assert back.plan == plan
    assert back.barrier == "it was taken back to earlier evidence: read everything again"
    assert back.redone().barrier == back.barrier


BARE = Plan(
    entries=(
        PlanEntry(topic="orders", number=3, leader=2),
        PlanEntry(topic="orders", number=77, leader=2),
    )
)


def test_a_bare_plan_gets_its_evidence_and_tells_what_was_dropped() -> None:
    draft = Draft.made(BARE)
    assert draft.barrier == "it has no evidence yet: read everything again"
    held = draft.held_against(present(BARE, LOSS))
    assert held.barrier == ""
    assert list(held.plan.leaders) == [LOSS.partition]
    assert [str(dismissed.partition) for dismissed in held.dismissed] == ["orders-77"]


def test_a_bare_plan_keeps_its_elections_until_all_of_them_were_read() -> None:
    held = Draft.made(BARE).held_against(present(BARE, unheard=(LOSS,)))
    assert list(held.plan.leaders) == [LOSS.partition, TopicPartition("orders", 77)]
    assert held.barrier == "it has no evidence yet: read everything again"


def test_edits_and_approvals_wait_to_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    draft = Draft.made(planned(SAFE, LOSS))
    draft = draft.saved_to(save_plan(draft.plan, path, draft.opened))
    assert not draft.unsaved
    edited = draft.edited(least_loss(draft.plan), "least loss")
    assert edited.unsaved
    assert not edited.undone().unsaved
    approved = draft.amended(approve(draft.plan, "ada", 5))
    assert approved.unsaved
    assert not approved.saved_to(save_plan(approved.plan, path, approved.opened)).unsaved
