"""The commands that edit a plan: what they write, and when they write nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from breakglass.console import plan_edits
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
    golden(breakglass("plan", "set", plan, "orders-1=1"))
    assert leaders_in(plan) == {"orders-1": 1, "orders-3": 1}


def test_set_takes_in_what_was_left_out(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, FORK)
    assert leaders_in(plan) == {}
    breakglass("plan", "set", plan, "orders-5=b1")
    assert leaders_in(plan) == {"orders-5": 1}


def test_set_works_on_all_partitions_of_a_topic_at_once_and_sums_many_changes_up(
    tmp_path: Path,
) -> None:
    many = [offline(log(1, (0, 9)), log(2, (0, 9)), number=number) for number in range(30)]
    plan = plan_file(tmp_path, *many)
    ended = breakglass("plan", "set", plan, "orders-*=2")
    assert set(leaders_in(plan).values()) == {2}
    assert sum(": b1 -> b2, " in line for line in ended.said) == plan_edits.CHANGES_SAID


def test_r16_an_unread_replica_can_be_set_and_its_loss_is_unknown(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, HALF_READ)
    breakglass("plan", "set", plan, "orders-7=2")
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
    ended = breakglass("plan", "set", plan, "orders-3=2", wanted)
    assert (ended.code, len(ended.said), named in ended.said[0]) == (code, 1, True)
    assert plan.read_bytes() == before


def test_exclude_leaves_out_with_the_reason_given(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, SAFE, LOSS)
    breakglass("plan", "exclude", plan, "orders-3", "--reason", "legal")
    assert leaders_in(plan) == {"orders-1": 2}
    assert [left["why"] for left in shown(plan)["left_out"]] == ["legal"]


def test_prefer_moves_leaders_only_where_it_costs_nothing(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, SAFE, AS_GOOD)
    assert leaders_in(plan) == {"orders-0": 1, "orders-1": 2}
    breakglass("plan", "prefer", plan, "--broker", 2, "--broker", 1)
    assert leaders_in(plan) == {"orders-0": 1, "orders-1": 2}
    breakglass("plan", "prefer", plan, "--broker", 2)
    assert leaders_in(plan) == {"orders-0": 2, "orders-1": 2}
    assert breakglass("plan", "prefer", plan).code == 2


def test_never_elects_others_and_leaves_out_where_there_is_none(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, SAFE, LOSS)
    breakglass("plan", "never", plan, 1)
    assert leaders_in(plan) == {"orders-1": 2, "orders-3": 2}
    breakglass("plan", "never", plan, 1, 2)
    assert leaders_in(plan) == {}
    assert len(shown(plan)["left_out"]) == 2


def test_least_loss_may_choose_against_the_ranking(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, LOSS)
    assert leaders_in(plan) == {"orders-3": 1}
    breakglass("plan", "least-loss", plan)
    assert leaders_in(plan) == {"orders-3": 2}


def test_an_edit_voids_approvals(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, LOSS)
    assert breakglass("plan", "approve", plan, "--by", "ada").code == 0
    assert [approval.by for approval in read_plan(plan).approvals] == ["ada"]
    breakglass("plan", "least-loss", plan)
    assert read_plan(plan).approvals == ()


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


def test_an_edit_that_changes_nothing_leaves_the_file_alone(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, SAFE)
    inode = plan.stat().st_ino
    assert breakglass("plan", "never", plan, 3).code == 0
    assert plan.stat().st_ino == inode


def test_an_edit_can_go_to_a_new_file_and_never_over_another(tmp_path: Path) -> None:
    plan, new = plan_file(tmp_path, SAFE), tmp_path / "new.json"
    before = plan.read_bytes()
    assert breakglass("plan", "set", plan, "orders-1=1", "--out", new).code == 0
    assert leaders_in(new) == {"orders-1": 1}
    assert breakglass("plan", "set", plan, "orders-1=2", "--out", new).code == 2
    assert leaders_in(new) == {"orders-1": 1}
    assert plan.read_bytes() == before


def test_an_edit_of_a_link_changes_what_it_leads_to_and_keeps_who_may_read_it(
    tmp_path: Path,
) -> None:
    plan, link = plan_file(tmp_path, SAFE), tmp_path / "link.json"
    plan.chmod(0o600)
    link.symlink_to(plan)
    breakglass("plan", "set", link, "orders-1=1")
    assert link.is_symlink()
    assert leaders_in(plan) == {"orders-1": 1}
    assert plan.stat().st_mode & 0o777 == 0o600


def test_an_edit_never_runs_over_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_file(tmp_path, SAFE, LOSS)
    say_changes: Callable[..., None] = plan_edits._say_changes

    def meanwhile(*given: object) -> None:
        rewrite(plan, lambda document: document["partitions"].pop())
        say_changes(*given)

    monkeypatch.setattr(plan_edits, "_say_changes", meanwhile)
    assert breakglass("plan", "set", plan, "orders-1=1").code == 3
    assert leaders_in(plan) == {"orders-1": 2}


def test_a_file_changed_by_hand_is_named(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, SAFE, LOSS)
    assert not breakglass("plan", "show", plan).err.startswith(str(plan))
    rewrite(plan, lambda document: document["partitions"].pop())
    assert breakglass("plan", "show", plan).err.startswith(str(plan))


def test_json_has_an_edit_as_a_difference(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, LOSS)
    before = read_plan(plan)
    document = breakglass("plan", "set", plan, "orders-3=2", "--json").document
    assert document["path"] == str(plan)
    assert document["before"]["digest"] == before.digest
    assert document["after"]["digest"] == read_plan(plan).digest
    assert document["before"]["loses"] == {"records": 50, "approximate": False}
    assert document["differences"] == [
        {
            "topic": "orders",
            "partition": 3,
            "leader_before": 1,
            "leader_after": 2,
            "loss_before": 50,
            "loss_after": 25,
            "evidence_changed": False,
        }
    ]
