"""Files and options that cannot be taken: one sentence, the right exit code, nothing changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.program import Ended, breakglass
from tests.unit.console.plan_files import BARE, plan_file, rewrite
from tests.unit.recovery.plans import SAFE

NOBODY = ("--bootstrap-server", "127.0.0.1:1")
"""Port 1 of loopback, where nobody listens."""

COMMANDS: dict[str, Callable[[Path], Ended]] = {
    "show": lambda path: breakglass("plan", "show", path),
    "set": lambda path: breakglass("plan", "set", path, "orders-1=1"),
    "diff": lambda path: breakglass("plan", "diff", path, path),
    "check": lambda path: breakglass("plan", "check", path, *NOBODY),
    "recover": lambda path: breakglass("recover", "--plan", path, "--write", *NOBODY),
}


def written(folder: Path, text: str) -> Path:
    path = folder / "plan.json"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path, message: str, command: str = "show") -> None:
    """Fail unless *command* ends with 2 and one sentence, and leaves the file as it is."""
    before = path.read_bytes()
    ended = COMMANDS[command](path)
    assert (ended.code, ended.out, len(ended.said)) == (2, "", 1)
    assert re.search(message, ended.said[0]), ended.said[0]
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_malformed_json_by_line_and_column(
    tmp_path: Path, command: str
) -> None:
    path = written(tmp_path, '{"partitions": [\n  {"topic": "orders" "partition": 1}\n]}')
    refused(path, r"is not JSON at line 2, column 22 \(expecting ',' delim.*: correct it", command)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "is not JSON at line 1, column 1", id="an empty file"),
        pytest.param('{"partitions": []}', "names no partition: list those", id="no partition"),
        pytest.param("[1]", 'has no list "partitions"', id="another document"),
        pytest.param(
            BARE.replace("\n]}", ',{"topic":"orders","partition":1,"designatedLeader":1}]}'),
            "names orders-1 twice: keep one",
            id="a duplicate partition",
        ),
        pytest.param(
            BARE.replace(', "designatedLeader": 2', ""),
            r'entry 1 \(orders-1\): it has no "designatedLeader": name the broker',
            id="no leader",
        ),
        pytest.param(
            BARE.replace('"partition": 1', '"partition": -1'),
            r"entry 1 \(orders\): .*negative",
            id="a negative partition",
        ),
        pytest.param(
            BARE.replace('"orders"', '"orders\\n"'), "is no name of a topic", id="no topic's name"
        ),
    ],
)
def test_a_file_that_is_no_plan_is_refused_by_entry(
    tmp_path: Path, text: str, message: str
) -> None:
    refused(written(tmp_path, text), message, "recover")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_future_schema(tmp_path: Path, command: str) -> None:
    path = plan_file(tmp_path, SAFE)
    rewrite(path, lambda document: document["breakglass"].update(schema=2))
    refused(path, "has plan schema 2 and this release reads 1: use the release that", command)


def test_a_leader_that_is_not_in_the_assignment_is_refused_with_the_assignment(
    tmp_path: Path,
) -> None:
    path = plan_file(tmp_path, SAFE)

    def elect_9(document: Any) -> None:
        document["partitions"][0]["designatedLeader"] = 9

    rewrite(path, elect_9)
    refused(path, r"designatedLeader 9 is not in its assignment 1, 2, 3: name one", "recover")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    ended = breakglass("plan", "show", tmp_path / "none.json")
    assert ended.code == 1
    assert ended.said == [
        f"{tmp_path / 'none.json'} cannot be read (No such file or directory): check the name and "
        "its permissions."
    ]


def test_without_write_recover_is_refused_before_any_broker_is_asked(tmp_path: Path) -> None:
    ended = breakglass("recover", "--plan", plan_file(tmp_path, SAFE), *NOBODY)
    assert ended.code == 3
    assert ended.said[-1].endswith("changes the cluster: add --write")


def test_recover_without_a_plan_says_how_to_name_one() -> None:
    assert breakglass("recover", "--write", *NOBODY) == (
        2,
        "",
        "name the plan: breakglass recover --plan FILE\n",
    )


@pytest.mark.parametrize("command", ["check", "recover"])
def test_a_cluster_that_cannot_be_reached_is_named_and_nothing_is_changed(
    tmp_path: Path, command: str
) -> None:
    path = plan_file(tmp_path, SAFE)
    before = path.read_bytes()
    ended = COMMANDS[command](path)
    assert (ended.code, ended.out) == (1, "")
    assert ended.said[0].startswith("no bootstrap server answers: 127.0.0.1:1")
    assert path.read_bytes() == before


def test_make_refuses_to_write_over_a_file_before_any_broker_is_asked(tmp_path: Path) -> None:
    path = plan_file(tmp_path, SAFE)
    before = path.read_bytes()
    ended = breakglass("plan", "make", "--out", path, *NOBODY)
    assert ended.code == 2
    assert ended.said == [f"{path} exists already and is kept: name another file."]
    assert path.read_bytes() == before


def test_make_leaves_no_file_behind_when_the_cluster_cannot_be_reached(tmp_path: Path) -> None:
    assert breakglass("plan", "make", "--out", tmp_path / "new.json", *NOBODY).code == 1
    assert not (tmp_path / "new.json").exists()
