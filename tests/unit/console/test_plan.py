"""`breakglass plan show` and `diff`, and files that no command of a plan takes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.program import Ended, breakglass
from tests.unit.console.conftest import Golden
from tests.unit.console.fakes import NOBODY
from tests.unit.console.plan_files import BARE, plan_file, rewrite, shown
from tests.unit.recovery.plans import EVERY_KIND, LOSS, SAFE


def test_show_prints_elections_what_is_left_out_the_digest_and_the_phrases(
    tmp_path: Path, golden: Golden
) -> None:
    golden(breakglass("plan", "show", plan_file(tmp_path, *EVERY_KIND)))


def test_a_bare_plan_is_shown_without_claims_about_losses(tmp_path: Path, golden: Golden) -> None:
    path = tmp_path / "bare.json"
    path.write_text(BARE)
    golden(breakglass("plan", "show", path))
    document = shown(path)
    assert document["loses"] is None
    assert document["partitions"] == [{"topic": "orders", "partition": 1, "designated_leader": 2}]


def test_a_hostile_note_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    path = plan_file(tmp_path, SAFE)
    note = "\x1b]0;owned\x07 [red]x[/red]\nnext line"
    rewrite(path, lambda document: document["breakglass"].update(notes=[note]))
    printed = breakglass("plan", "show", path).out
    assert r"\x1b]0;owned\x07 [red]x[/red]\nnext line" in printed
    assert "\x1b" not in printed


def test_diff_prints_leaders_and_losses_of_both_and_exits_1(tmp_path: Path, golden: Golden) -> None:
    one, edited = plan_file(tmp_path, SAFE, LOSS), tmp_path / "edited.json"
    other = tmp_path / "other.json"
    breakglass("plan", "edit", one, "orders-3=2", "--out", edited)
    breakglass("plan", "exclude", edited, "orders-1", "--out", other)
    rewrite(other, lambda document: document["breakglass"].update(cluster_id="elsewhere"))
    golden(breakglass("plan", "diff", one, other))
    document = breakglass("plan", "diff", one, other, "--json").document
    assert [(one["partition"], one["leader_after"]) for one in document["differences"]] == [
        (1, None),
        (3, 2),
    ]


COMMANDS: dict[str, Callable[[Path], Ended]] = {
    "show": lambda path: breakglass("plan", "show", path),
    "set": lambda path: breakglass("plan", "edit", path, "orders-1=1"),
    "diff": lambda path: breakglass("plan", "diff", path, path),
    "check": lambda path: breakglass("plan", "check", path, *NOBODY),
    "recover": lambda path: breakglass("recover", "--plan", path, "--write", *NOBODY),
}


def refused(path: Path, command: str, *named: str) -> None:
    """Fail unless *command* ends with 2 and one sentence that has *named*; the file stays."""
    before = path.read_bytes()
    ended = COMMANDS[command](path)
    assert (ended.code, ended.out, len(ended.said)) == (2, "", 1)
    assert [word for word in named if word not in ended.said[0]] == []
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_malformed_json_by_line_and_column_and_a_future_schema(
    tmp_path: Path, command: str
) -> None:
    path = plan_file(tmp_path, SAFE)
    whole = path.read_bytes()
    rewrite(path, lambda document: document["breakglass"].update(schema=2))
    refused(path, command, "schema 2")
    path.write_text('{"partitions": [\n  {"topic": "orders" "partition": 1}\n]}')
    refused(path, command, "line 2, column 22")
    path.write_bytes(whole)
    rewrite(path, lambda document: document["partitions"][0].update(designatedLeader=9))
    refused(path, command, "designatedLeader 9", "1, 2, 3")


TWICE = BARE.replace("\n]}", ',{"topic":"orders","partition":1,"designatedLeader":1}]}')


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "line 1, column 1"),
        ('{"partitions": []}', "plan.json"),
        ("[1]", '"partitions"'),
        (TWICE, "orders-1 twice"),
        (BARE.replace(', "designatedLeader": 2', ""), "entry 1 (orders-1)"),
        (BARE.replace('"partition": 1', '"partition": -1'), "entry 1 (orders)"),
        (BARE.replace('"orders"', '"orders\\n"'), "entry 1"),
    ],
    ids=[
        *("an empty file", "no partition", "another document", "a duplicate partition"),
        *("no leader", "a negative partition", "no topic's name"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_by_entry(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    refused(path, "recover", named)


def test_what_is_missing_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    path, none = plan_file(tmp_path, SAFE), tmp_path / "none.json"
    before = path.read_bytes()
    for code, named, ended in (
        (1, str(none), COMMANDS["show"](none)),
        (3, "--write", breakglass("recover", "--plan", path, *NOBODY)),
        (2, "recover PLAN", breakglass("recover", "--write", *NOBODY)),
        (1, "127.0.0.1:1", COMMANDS["check"](path)),
        (1, "127.0.0.1:1", COMMANDS["recover"](path)),
    ):
        assert (ended.code, ended.out, named in ended.said[0]) == (code, "", True), ended
    assert path.read_bytes() == before


def test_make_keeps_a_file_that_is_there_and_leaves_none_behind_when_it_fails(
    tmp_path: Path,
) -> None:
    path = plan_file(tmp_path, SAFE)
    before = path.read_bytes()
    assert breakglass("plan", "make", "--out", path, *NOBODY).code == 2
    assert path.read_bytes() == before
    assert breakglass("plan", "make", "--out", tmp_path / "new.json", *NOBODY).code == 1
    assert not (tmp_path / "new.json").exists()
