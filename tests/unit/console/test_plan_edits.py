"""The commands that edit a plan: what they write, and when they write nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from breakglass.console import plan_edits
from breakglass.services.model import PartitionEvidence
from tests.kit.plans import read_plan
from tests.kit.program import breakglass
from tests.unit.console.conftest import Golden
from tests.unit.console.plan_files import BARE, leaders_in, plan_file, rewrite, shown
from tests.unit.recovery.plans import EVERY_KIND, FORK, HALF_READ, LOSS, SAFE
from tests.unit.recovery.replicas import log, offline

AS_GOOD = offline(log(1, (0, 100)), log(2, (0, 100)), number=0)


def test_set_designates_a_leader_and_shows_what_that_loses_before_and_after(
    tmp_path: Path, golden: Golden
) -> None:
    plan = plan_file(tmp_path, SAFE, LOSS)
    golden(breakglass("plan", "edit", plan, "orders-1=1"))
    assert leaders_in(plan) == {"orders-1": 1, "orders-3": 1}


def test_r16_an_unread_replica_can_be_set_and_its_loss_is_unknown(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, HALF_READ)
    breakglass("plan", "edit", plan, "orders-7=2")
    document = shown(plan)
    assert document["consents"] == ["orders-7 lose unknown"]
    assert set(document["loses"]["records"]) == {"unknown"}
    assert set(document["partitions"][0]["loses"]["records"]) == {"unknown"}


FAILED = offline(log(1, (0, 9), log_dir_online=False), log(2, (0, 5)), number=2)


@pytest.mark.parametrize(
    ("wanted", "named", "code"),
    [
        ("orders-1=3", "b3", 3),
        ("orders-1=9", "1, 2, 3", 3),
        ("orders-8=2", "b4", 3),
        ("orders-2=1", "b1", 3),
        ("carts-0=1", "carts-0", 2),
        ("carts-*=1", "carts", 2),
        ("orders-1", "orders-3=1", 2),
    ],
    ids=[
        *("fenced", "not in the assignment", "an empty replica may lead", "offline log directory"),
        *("no such partition", "no such topic", "no leader"),
    ],
)
def test_what_cannot_be_set_is_refused_with_the_reason_and_nothing_is_written(
    tmp_path: Path, wanted: str, named: str, code: int
) -> None:
    plan = plan_file(tmp_path, *EVERY_KIND, FAILED)
    before = plan.read_bytes()
    ended = breakglass("plan", "edit", plan, "orders-3=2", wanted)
    assert (ended.code, len(ended.said), named in ended.said[0]) == (code, 1, True)
    assert plan.read_bytes() == before


@pytest.mark.parametrize(
    ("evidence", "words", "leaders"),
    [
        ((FORK,), "set orders-5=b1", {"orders-5": 1}),
        ((SAFE, LOSS), "exclude orders-3 --reason legal", {"orders-1": 2}),
        ((SAFE, AS_GOOD), "prefer --broker 2", {"orders-0": 2, "orders-1": 2}),
        ((SAFE, LOSS), "never 1", {"orders-1": 2, "orders-3": 2}),
        ((SAFE, LOSS), "never 1 2", {}),
        ((LOSS,), "least-loss", {"orders-3": 2}),
    ],
)
def test_an_edit_elects_as_it_says_and_voids_approvals(
    tmp_path: Path, evidence: tuple[PartitionEvidence, ...], words: str, leaders: dict[str, int]
) -> None:
    plan = plan_file(tmp_path, *evidence)
    breakglass("plan", "approve", plan, "--by", "ada")
    name, *arguments = words.split()
    assert breakglass("plan", name, plan, *arguments).code == 0
    assert (leaders_in(plan), read_plan(plan).approvals) == (leaders, ())
    left_out = shown(plan)["left_out"]
    assert len(left_out) == len(evidence) - len(leaders)
    if name == "exclude":
        assert left_out[0]["why"] == "legal"


@pytest.mark.parametrize(
    ("words", "code"), [("prefer --broker 2 --broker 1", 0), ("never 3", 0), ("prefer", 2)]
)
def test_an_edit_that_changes_nothing_leaves_the_file_alone(
    tmp_path: Path, words: str, code: int
) -> None:
    plan = plan_file(tmp_path, SAFE, AS_GOOD)
    inode = plan.stat().st_ino
    name, *arguments = words.split()
    assert breakglass("plan", name, plan, *arguments).code == code
    assert (plan.stat().st_ino, leaders_in(plan)) == (inode, {"orders-0": 1, "orders-1": 2})


def test_approval_of_another_digest_is_refused_and_twice_is_once(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, LOSS)
    spoken = read_plan(plan).spoken_digest
    assert breakglass("plan", "approve", plan, "--digest", "lusab-babad-gutih").code == 3
    assert read_plan(plan).approvals == ()
    for digest in (spoken, read_plan(plan).digest):
        assert breakglass("plan", "approve", plan, "--digest", digest).code == 0
        (approval,) = read_plan(plan).approvals
        assert "@" in approval.by, "the operator"
    assert breakglass("plan", "approve", plan, "--by", "ada").code == 0
    assert len(read_plan(plan).approvals) == 2


@pytest.mark.parametrize(
    "edit",
    [("set", "orders-1=2"), ("exclude", "orders-1"), ("never", "2"), ("least-loss",), ("approve",)],
    ids=lambda edit: edit[0],
)
def test_a_bare_plan_has_no_evidence_for_an_edit(tmp_path: Path, edit: tuple[str, ...]) -> None:
    plan = tmp_path / "bare.json"
    plan.write_text(BARE)
    name, *arguments = edit
    assert breakglass("plan", name, plan, *arguments).code == 2
    assert plan.read_text() == BARE


def test_an_edit_goes_to_a_new_file_or_to_what_a_link_leads_to_and_never_over_another(
    tmp_path: Path,
) -> None:
    plan, new, link = (tmp_path / name for name in ("plan.json", "new.json", "link.json"))
    plan_file(tmp_path, SAFE)
    before = plan.read_bytes()
    assert breakglass("plan", "edit", plan, "orders-1=1", "--out", new).code == 0
    assert breakglass("plan", "edit", plan, "orders-1=2", "--out", new).code == 2
    assert (leaders_in(new), plan.read_bytes()) == ({"orders-1": 1}, before)
    plan.chmod(0o600)
    link.symlink_to(plan)
    breakglass("plan", "edit", link, "orders-1=1")
    assert (link.is_symlink(), leaders_in(plan)) == (True, {"orders-1": 1})
    assert plan.stat().st_mode & 0o777 == 0o600


def test_an_edit_never_runs_over_somebody_elses_which_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_file(tmp_path, SAFE, LOSS)
    say_changes: Callable[..., None] = plan_edits._say_changes

    def meanwhile(*given: object) -> None:
        rewrite(plan, lambda document: document["partitions"].pop())
        say_changes(*given)

    monkeypatch.setattr(plan_edits, "_say_changes", meanwhile)
    assert not breakglass("plan", "show", plan).err.startswith(str(plan))
    assert breakglass("plan", "edit", plan, "orders-1=1").code == 3
    assert leaders_in(plan) == {"orders-1": 2}
    assert breakglass("plan", "show", plan).err.startswith(str(plan))
