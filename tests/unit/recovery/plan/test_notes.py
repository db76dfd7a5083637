"""Notes in a plan."""

from __future__ import annotations

import pytest

from breakglass.services.errors import UsageError
from breakglass.services.recovery.plan.document import Approval
from breakglass.services.recovery.plan.notes import NOTE_LENGTH, approve
from tests.kit.plans import add_note
from tests.unit.recovery.plans import SAFE, planned


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


@pytest.mark.parametrize("again", ["ada", "Ada", " ADA ", "\uff41\uff44\uff41"])
def test_one_person_counts_once_however_the_name_is_written(again: str) -> None:
    plan = approve(planned(SAFE), "ada", 5)
    assert approve(plan, again, 6) is plan


def test_a_file_that_names_a_person_twice_counts_her_once() -> None:
    plan = approve(planned(SAFE), "ada", 5)
    twice = Approval(by="Ada", at_ms=6, digest=plan.digest)
    assert plan.breakglass is not None
    forged = plan.with_evidence(approvals=(*plan.breakglass.approvals, twice))
    assert [approval.by for approval in forged.approvals] == ["ada"]


@pytest.mark.parametrize("name", ["", "  ", "a\x1b[31m", "a\u202eb", "x" * 101])
def test_a_name_is_one_that_can_be_read(name: str) -> None:
    with pytest.raises(UsageError):
        approve(planned(SAFE), name, 5)
