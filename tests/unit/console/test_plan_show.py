"""`breakglass plan show` and `diff`: what they print, for people and for programs."""

from __future__ import annotations

from pathlib import Path

from breakglass.services.recovery.plan.file import (
    write_plan,
)
from breakglass.services.recovery.plan.notes import approve
from tests.kit.plans import read_plan
from tests.kit.program import breakglass
from tests.unit.console.plan_files import BARE, plan_file, rewrite
from tests.unit.recovery.plans import CLUSTER, EVERY_KIND, HALF_READ, INTERNAL, LOSS, SAFE, planned
from tests.unit.recovery.replicas import log, offline


def row(printed: str, partition: str) -> list[str]:
    """The cells of one row of a table, as far as they are apart by two blanks."""
    (line,) = (line for line in printed.splitlines() if line.startswith(partition))
    return [cell.strip() for cell in line.split("  ") if cell]


def facts(printed: str, name: str) -> list[str]:
    """What is said under *name* above the table."""
    lines = printed.splitlines()
    return [line.removeprefix(name).strip() for line in lines if line.startswith(name)]


def test_show_prints_a_row_for_each_election_and_for_what_is_left_out(tmp_path: Path) -> None:
    printed = breakglass("plan", "show", plan_file(tmp_path, *EVERY_KIND)).out
    assert row(printed, "orders-3") == [
        *("orders-3", "b1", "rank", "LOSS", "elect b1", "50", "b3"),
        "electing b1 loses 50 records",
    ]
    *cells, why = row(printed, "orders-5")
    assert cells[:5] == ["orders-5", "-", "-", "FORK", "decide"]
    assert why.startswith("history fork")


def test_show_sums_up_what_is_elected_and_what_is_left_out(tmp_path: Path) -> None:
    printed = breakglass("plan", "show", plan_file(tmp_path, *EVERY_KIND)).out
    (summary,) = facts(printed, "plan")
    assert summary == "elects 5 partitions, loses 50, b2,b3,b5 unread; leaves out 3 partitions"
    assert facts(printed, "cluster") == [CLUSTER]


def test_show_prints_the_digest_to_be_compared_over_the_phone(tmp_path: Path) -> None:
    path = plan_file(tmp_path, SAFE)
    plan = read_plan(path)
    assert facts(breakglass("plan", "show", path).out, "digest") == [
        f"{plan.spoken_digest}  {plan.digest}"
    ]


def test_show_prints_the_phrases_that_recover_will_ask_for(tmp_path: Path) -> None:
    printed = breakglass("plan", "show", plan_file(tmp_path, SAFE, LOSS, INTERNAL)).out
    assert facts(printed, "consent") == [
        "__consumer_offsets-0 lose 0  (on its own: it is an internal topic)",
        "2 partitions lose 50 and abandon b3",
    ]


def test_show_names_those_who_approved_this_digest_and_counts_the_others(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_plan(approve(planned(LOSS), "ada", 5), path)
    assert facts(breakglass("plan", "show", path).out, "approved") == ["ada, 1970-01-01 00:00:00Z"]
    breakglass("plan", "least-loss", path)
    printed = breakglass("plan", "show", path).out
    assert facts(printed, "approved") == []
    assert facts(printed, "void") == ["1 approval of another digest"]


def test_show_says_whom_a_hand_chose_over_whom_and_what_that_one_loses(tmp_path: Path) -> None:
    path = plan_file(tmp_path, LOSS)
    breakglass("plan", "set", path, "orders-3=2")
    (one,) = breakglass("plan", "show", path, "--json").document["partitions"]
    assert one["chosen_by"] == "hand"
    assert one["why"] == "over b1, which ranks first and loses 50"


def test_r24_show_says_that_kafkas_own_tool_elects_by_order(tmp_path: Path) -> None:
    said = breakglass("plan", "show", plan_file(tmp_path, SAFE)).err
    assert "kafka-leader-election.sh reads this file, but elects by the assignment's order" in said


def test_many_partitions_alike_become_one_row_unless_each_is_wanted(tmp_path: Path) -> None:
    many = [offline(log(1, (0, 9)), log(2, (0, 7)), number=number) for number in range(5)]
    path = plan_file(tmp_path, *many)
    assert row(breakglass("plan", "show", path).out, "orders")[0] == "orders-* (5)"
    assert breakglass("plan", "show", path, "--each").out.count("orders-") == 5


def test_a_bare_plan_is_shown_without_claims_about_losses(tmp_path: Path) -> None:
    path = tmp_path / "bare.json"
    path.write_text(BARE)
    ended = breakglass("plan", "show", path)
    assert ended.code == 0
    assert facts(ended.out, "evidence")[0].startswith("none: a file in Kafka's form")
    assert facts(ended.out, "plan") == ["elects 1 partition"]
    document = breakglass("plan", "show", path, "--json").document
    assert document["loses"] is None
    assert document["partitions"] == [{"topic": "orders", "partition": 1, "designated_leader": 2}]


def test_the_file_that_the_kip_prints_is_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "kip.json"
    path.write_text(
        "{partitions: [\n"
        '  {topic: "foo", partition: 1, designatedLeader: 0},\n'
        '  {topic: "foobar", partition: 2, designatedLeader: 1}]\n}'
    )
    told = breakglass("plan", "show", path, "--json").document["partitions"]
    assert [tuple(one.values()) for one in told] == [("foo", 1, 0), ("foobar", 2, 1)]


def test_json_keeps_what_is_unknown_unknown(tmp_path: Path) -> None:
    path = plan_file(tmp_path, HALF_READ)
    breakglass("plan", "set", path, "orders-7=2")
    document = breakglass("plan", "show", path, "--json").document
    assert set(document["loses"]["records"]) == {"unknown"}
    assert set(document["partitions"][0]["loses"]["records"]) == {"unknown"}


def test_a_hostile_topic_and_note_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    path = plan_file(tmp_path, SAFE)

    def poison(document: dict[str, dict[str, object]]) -> None:
        document["breakglass"]["notes"] = ["\x1b]0;owned\x07 [red]x[/red]\nnext line"]

    rewrite(path, poison)
    printed = breakglass("plan", "show", path).out
    assert "\x1b" not in printed
    assert facts(printed, "note") == [r"\x1b]0;owned\x07 [red]x[/red]\nnext line"]


def test_diff_is_silent_and_0_for_plans_that_elect_the_same(tmp_path: Path) -> None:
    one = plan_file(tmp_path, SAFE, LOSS)
    other = plan_file(tmp_path, LOSS, SAFE, name="other.json")
    assert breakglass("plan", "diff", one, other) == (0, "", "")


def test_diff_prints_leaders_and_losses_of_both_and_exits_1(tmp_path: Path) -> None:
    one, other = plan_file(tmp_path, SAFE, LOSS), tmp_path / "other.json"
    breakglass("plan", "set", one, "orders-3=2", "--out", other)
    ended = breakglass("plan", "diff", one, other)
    assert ended.code == 1
    assert ended.out.splitlines()[1].split() == ["orders-3", "b1", "b2", "50", "25", "same"]
    document = breakglass("plan", "diff", one, other, "--json").document
    assert [one["partition"] for one in document["differences"]] == [3]


def test_diff_names_partitions_that_one_plan_leaves_out(tmp_path: Path) -> None:
    one, other = plan_file(tmp_path, SAFE, LOSS), tmp_path / "other.json"
    breakglass("plan", "exclude", one, "orders-1", "--out", other)
    ended = breakglass("plan", "diff", one, other)
    assert ended.out.splitlines()[1].split() == ["orders-1", "b2", "-", "0", "-", "same"]


def test_diff_says_that_the_plans_are_for_two_clusters(tmp_path: Path) -> None:
    one, other = plan_file(tmp_path, SAFE), plan_file(tmp_path, SAFE, name="other.json")
    rewrite(other, lambda document: document["breakglass"].update(cluster_id="elsewhere"))
    said = breakglass("plan", "diff", one, other).said
    assert said[-1] == f"{one} is for cluster {CLUSTER}, {other} for elsewhere."


def test_diff_holds_a_bare_plan_against_ours(tmp_path: Path) -> None:
    bare = tmp_path / "bare.json"
    bare.write_text(BARE)
    assert breakglass("plan", "diff", bare, plan_file(tmp_path, SAFE)).code == 0
