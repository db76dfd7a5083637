"""Plans opened and saved: nothing is written over that was not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.errors import EvidenceChanged, StorageError, UsageError
from breakglass.services.recovery.plan.draft import open_plan, save_plan
from breakglass.services.recovery.plan.edit import exclude
from tests.kit.plans import read_plan, render_plan
from tests.unit.recovery.plans import LOSS, SAFE, planned


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    save_plan(planned(SAFE, LOSS), path, None)
    return path


def test_an_opened_plan_is_saved_over_its_file_again_and_again(plan_file: Path) -> None:
    plan, opened = open_plan(plan_file)
    opened = save_plan(exclude(plan, SAFE.partition), plan_file, opened)
    opened = save_plan(exclude(plan, LOSS.partition), plan_file, opened)
    assert list(read_plan(plan_file).leaders) == [SAFE.partition]


def test_a_file_that_was_not_opened_is_kept(plan_file: Path) -> None:
    with pytest.raises(UsageError, match="exists already and is kept"):
        save_plan(planned(SAFE), plan_file, None)


def test_another_file_than_the_opened_one_is_kept(plan_file: Path) -> None:
    other = plan_file.with_name("other.json")
    other.write_text("precious")
    plan, opened = open_plan(plan_file)
    with pytest.raises(UsageError, match="exists already and is kept"):
        save_plan(plan, other, opened)
    assert other.read_text() == "precious"


def test_a_file_that_somebody_wrote_meanwhile_is_kept(plan_file: Path) -> None:
    plan, opened = open_plan(plan_file)
    plan_file.write_text(render_plan(planned(LOSS)))
    with pytest.raises(EvidenceChanged, match="changed by somebody else in between"):
        save_plan(plan, plan_file, opened)
    assert list(read_plan(plan_file).leaders) == [LOSS.partition]


def test_a_file_that_is_gone_by_now_is_written_anew(plan_file: Path) -> None:
    plan, opened = open_plan(plan_file)
    plan_file.unlink()
    save_plan(plan, plan_file, opened)
    assert read_plan(plan_file).digest == plan.digest


def test_of_a_link_what_it_leads_to_is_replaced(plan_file: Path) -> None:
    link = plan_file.with_name("link.json")
    link.symlink_to(plan_file)
    plan, opened = open_plan(link)
    save_plan(exclude(plan, SAFE.partition), link, opened)
    assert link.is_symlink()
    assert list(read_plan(plan_file).leaders) == [LOSS.partition]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be written"):
        save_plan(planned(SAFE), tmp_path / "none" / "plan.json", None)
