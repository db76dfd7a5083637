"""The commands that edit a plan: what they write, what they say, and when they write nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.console import plan_edits
from tests.kit.plans import read_plan
from tests.kit.program import breakglass
from tests.unit.console.plan_files import BARE, leaders_in, plan_file, rewrite
from tests.unit.recovery.plans import EVERY_KIND, FORK, HALF_READ, LOSS, SAFE
from tests.unit.recovery.replicas import log, offline

AS_GOOD = offline(log(1, (0, 100)), log(2, (0, 100)), number=0)


def test_set_designates_a_leader_and_says_what_that_loses_before_and_after(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, SAFE, LOSS)
    ended = breakglass("plan", "set", plan, "orders-1=1")
    assert ended.code == 0
    assert leaders_in(plan) == {"orders-1": 1, "orders-3": 1}
    assert ended.said[0] == "orders-1: b2 -> b1, loses 0 -> 10"
    assert ended.said[1].startswith("before: elects 2 partitions, loses 50, b3 unread")
    assert ended.said[2].startswith("after:  elects 2 partitions, loses 60, b3 unread")
    assert ended.out == ""


def test_set_takes_in_what_was_left_out(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, FORK)
    assert leaders_in(plan) == {}
    ended = breakglass("plan", "set", plan, "orders-5=b1")
    assert leaders_in(plan) == {"orders-5": 1}
    assert "orders-5: left out -> b1, loses - -> 2" in ended.said


def test_set_works_on_all_partitions_of_a_topic_at_once(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, SAFE, LOSS)
    breakglass("plan", "set", plan, "orders-*=1")
    assert set(leaders_in(plan).values()) == {1}


def test_r16_an_unread_replica_can_be_set_and_its_loss_is_unknown(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, HALF_READ)
    ended = breakglass("plan", "set", plan, "orders-7=2")
    assert "orders-7: b1 -> b2, loses 0 -> ?" in ended.said
    shown = breakglass("plan", "show", plan, "--json").document
    assert shown["consents"] == ["orders-7 lose unknown"]


@pytest.mark.parametrize(
    ("wanted", "reason", "code"),
    [
        ("orders-1=3", "b3 cannot lead orders-1: b3 is fenced.", 3),
        ("orders-1=9", "b9 cannot lead orders-1: b9 is not in the assignment 1, 2, 3.", 3),
        ("orders-8=2", "stop b4, wait until fenced, read again", 3),
        ("carts-0=1", "no evidence for carts-0", 2),
        ("carts-*=1", "no partition of topic carts", 2),
        ("orders-1", "write it like orders-3=1", 2),
    ],
)
def test_what_cannot_be_set_is_refused_with_the_reason_and_nothing_is_written(
    tmp_path: Path, wanted: str, reason: str, code: int
) -> None:
    plan = plan_file(tmp_path, *EVERY_KIND)
    before = plan.read_bytes()
    ended = breakglass("plan", "set", plan, "orders-3=2", wanted)
    assert ended.code == code
    assert len(ended.said) == 1
    assert reason in ended.said[0]
    assert plan.read_bytes() == before


def test_a_leader_on_an_offline_log_directory_is_refused(tmp_path: Path) -> None:
    failed = offline(log(1, (0, 9), log_dir_online=False), log(2, (0, 5)), number=2)
    ended = breakglass("plan", "set", plan_file(tmp_path, failed), "orders-2=1")
    assert ended.code == 3
    assert ended.said == ["b1 cannot lead orders-2: the log directory of b1 is offline."]


def test_exclude_leaves_out_with_the_reason_given(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, SAFE, LOSS)
    breakglass("plan", "exclude", plan, "orders-3", "--reason", "legal wants it as it is")
    assert leaders_in(plan) == {"orders-1": 2}
    (left,) = breakglass("plan", "show", plan, "--json").document["left_out"]
    assert left["why"] == "legal wants it as it is"


def test_prefer_moves_leaders_only_where_it_costs_nothing(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, SAFE, AS_GOOD)
    assert leaders_in(plan) == {"orders-0": 1, "orders-1": 2}
    breakglass("plan", "prefer", plan, "--broker", 2, "--broker", 1)
    assert leaders_in(plan) == {"orders-0": 1, "orders-1": 2}
    breakglass("plan", "prefer", plan, "--broker", 2)
    assert leaders_in(plan) == {"orders-0": 2, "orders-1": 2}


def test_prefer_wants_a_broker_or_a_rack(tmp_path: Path) -> None:
    ended = breakglass("plan", "prefer", plan_file(tmp_path, SAFE))
    assert ended.code == 2
    assert ended.said == ["name brokers by --broker, a rack by --rack, or both"]


def test_never_elects_others_and_leaves_out_where_there_is_none(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, SAFE, LOSS)
    breakglass("plan", "never", plan, 1)
    assert leaders_in(plan) == {"orders-1": 2, "orders-3": 2}
    breakglass("plan", "never", plan, 1, 2)
    assert leaders_in(plan) == {}
    left = breakglass("plan", "show", plan, "--json").document["left_out"]
    assert {one["why"] for one in left} == {"b1, b2 must not lead and no other replica can"}


def test_least_loss_may_choose_against_the_ranking(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, LOSS)
    assert leaders_in(plan) == {"orders-3": 1}
    breakglass("plan", "least-loss", plan)
    assert leaders_in(plan) == {"orders-3": 2}


def test_an_edit_voids_approvals_and_says_so(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, LOSS)
    assert breakglass("plan", "approve", plan, "--by", "ada").code == 0
    assert [approval.by for approval in read_plan(plan).approvals] == ["ada"]
    ended = breakglass("plan", "least-loss", plan)
    assert ended.said[-1].startswith("The approvals were of the plan before this edit")
    assert read_plan(plan).approvals == ()


def test_approval_of_another_digest_is_refused(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, LOSS)
    spoken = read_plan(plan).spoken_digest
    assert breakglass("plan", "approve", plan, "--digest", "lusab-babad-gutih").code == 3
    assert read_plan(plan).approvals == ()
    assert breakglass("plan", "approve", plan, "--digest", spoken).code == 0
    again = breakglass("plan", "approve", plan, "--digest", read_plan(plan).digest)
    assert (again.code, len(read_plan(plan).approvals)) == (0, 1)
    assert "approved it already" in again.said[-1]
    assert breakglass("plan", "approve", plan, "--by", "ada").code == 0
    assert len(read_plan(plan).approvals) == 2


def test_an_approval_names_the_operator_when_nobody_else_is_named(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, LOSS)
    breakglass("plan", "approve", plan)
    assert "@" in read_plan(plan).approvals[0].by


@pytest.mark.parametrize(
    "edit",
    [
        ["set", "orders-1=2"],
        ["exclude", "orders-1"],
        ["never", "2"],
        ["least-loss"],
        ["approve"],
    ],
    ids=lambda edit: edit[0],
)
def test_a_bare_plan_has_no_evidence_for_an_edit(tmp_path: Path, edit: list[str]) -> None:
    plan = tmp_path / "bare.json"
    plan.write_text(BARE)
    name, *arguments = edit
    ended = breakglass("plan", name, plan, *arguments)
    assert ended.code == 2
    assert "no evidence" in ended.said[-1]
    assert plan.read_text() == BARE


def test_an_edit_that_changes_nothing_leaves_the_file_alone(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, SAFE)
    inode = plan.stat().st_ino
    ended = breakglass("plan", "never", plan, 3)
    assert ended.code == 0
    assert ended.said[0].startswith("Nothing to change")
    assert plan.stat().st_ino == inode


def test_an_edit_can_go_to_a_new_file_and_never_over_another(tmp_path: Path) -> None:
    plan, new = plan_file(tmp_path, SAFE), tmp_path / "new.json"
    before = plan.read_bytes()
    assert breakglass("plan", "set", plan, "orders-1=1", "--out", new).code == 0
    assert leaders_in(new) == {"orders-1": 1}
    assert breakglass("plan", "set", plan, "orders-1=2", "--out", new).code == 2
    assert leaders_in(new) == {"orders-1": 1}
    assert plan.read_bytes() == before


def test_an_edit_of_a_link_changes_what_it_leads_to(tmp_path: Path) -> None:
    plan, link = plan_file(tmp_path, SAFE), tmp_path / "link.json"
    link.symlink_to(plan)
    breakglass("plan", "set", link, "orders-1=1")
    assert link.is_symlink()
    assert leaders_in(plan) == {"orders-1": 1}


def test_an_edit_keeps_who_may_read_the_file(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, SAFE)
    plan.chmod(0o600)
    breakglass("plan", "set", plan, "orders-1=1")
    assert plan.stat().st_mode & 0o777 == 0o600


def test_an_edit_never_runs_over_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_file(tmp_path, SAFE, LOSS)
    say_changes = plan_edits._say_changes

    def meanwhile(*given: object) -> None:
        rewrite(plan, lambda document: document["partitions"].pop())
        say_changes(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(plan_edits, "_say_changes", meanwhile)
    ended = breakglass("plan", "set", plan, "orders-1=1")
    assert ended.code == 3
    assert "changed by somebody else in between" in ended.said[-1]
    assert leaders_in(plan) == {"orders-1": 2}


def test_a_file_changed_by_hand_is_named_as_such(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, SAFE, LOSS)
    rewrite(plan, lambda document: document["partitions"].pop())
    assert breakglass("plan", "show", plan).said[0].startswith(f"{plan} was changed by other means")


def test_json_tells_an_edit_as_a_difference(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, LOSS)
    before = read_plan(plan)
    document = breakglass("plan", "set", plan, "orders-3=2", "--json").document
    assert document["path"] == str(plan)
    assert document["before"]["digest"] == before.digest
    assert document["after"]["digest"] == read_plan(plan).digest
    assert document["before"]["loses"] == {"records": 50, "approximate": False}
    (difference,) = document["differences"]
    assert difference == {
        "topic": "orders",
        "partition": 3,
        "leader_before": 1,
        "leader_after": 2,
        "loss_before": 50,
        "loss_after": 25,
        "evidence_changed": False,
    }


def test_many_changes_are_summed_up(tmp_path: Path) -> None:
    many = [offline(log(1, (0, 9)), log(2, (0, 9)), number=number) for number in range(30)]
    ended = breakglass("plan", "set", plan_file(tmp_path, *many), "orders-*=2")
    assert sum(": b1 -> b2, " in line for line in ended.said) == plan_edits.CHANGES_SAID
    assert "and 10 more: see them with `breakglass plan diff`" in ended.said
