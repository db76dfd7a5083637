"""`breakglass journal`, command by command, on journals of the user's state folder."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from breakglass.console.journal import app
from breakglass.services.errors import MalformedInput, UsageError
from breakglass.services.model import PartitionState
from breakglass.services.state_folder import state_folder
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import CLUSTER_ID, TOPIC_ID
from tests.unit.recovery.timeline import journals
from tests.unit.recovery.timeline.journals import CLUSTER, ORDERS


def run(*arguments: str, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return result


def document(*arguments: str) -> Any:
    return json.loads(run(*arguments).stdout)


@pytest.fixture
def state(user_folders: Path) -> Path:
    """The state folder, with a recovery and, newer, a reset of offsets of another cluster."""
    folder = state_folder()
    journals.recovery(folder)
    journals.group_reset(folder, "other")
    return folder


def test_all_journals_are_listed_newest_first(state: Path) -> None:
    lines = run("list").stdout.splitlines()
    assert [line.split()[1] for line in lines[1:]] == ["other", CLUSTER]
    assert "recovery of 4 partitions" in lines[2]
    assert "3 elected, 1 unknown" in lines[2]


def test_the_list_can_be_of_one_cluster_and_json(state: Path) -> None:
    listed = document("list", "--cluster", CLUSTER, "--json")
    (one,) = listed["journals"]
    assert (one["unknown"], one["outcomes"]) == (1, {"elected": 3, "unknown": 1})


def test_a_journal_that_cannot_be_read_is_named(state: Path) -> None:
    path = next((state / "journal").glob(f"*{CLUSTER}/*.jsonl"))
    path.write_text("{}\n")
    result = run("list")
    assert "passed over: journal" in result.stderr
    assert CLUSTER not in result.stdout
    (other, broken) = document("list", "--json")["journals"]
    assert (other["cluster_id"], broken["journal"]) == ("other", str(path))
    assert "line 1" in broken["unreadable"]


def test_without_a_journal_the_list_says_so_and_the_others_refuse(user_folders: Path) -> None:
    assert run("list").stderr == "There is no journal: nothing was changed from here.\n"
    for command in ("show", "timeline", "check"):
        with pytest.raises(UsageError, match="There is no journal"):
            run(command, *(["--bootstrap-server", "x:1"] if command == "check" else []))


def test_the_newest_is_shown_unless_another_is_named(state: Path) -> None:
    assert run("show").stdout.splitlines()[1].split()[:2] == ["ledger-3", "moved"]
    (path,) = (state / "journal").glob(f"*{CLUSTER}/*.jsonl")
    for name in (path.stem, str(path)):
        result = run("show", name)
        assert result.stderr.splitlines()[1] == f"journal: {path}"
        ledger = result.stdout.splitlines()[1]
        assert ledger.split()[:5] == ["ledger-3", "elected", "b1", "6", "50"]
        assert "50 of b2: rescues/prod-eu-1/topics/ledger/3" in ledger
    assert len(document("show", path.stem, "--json")["partitions"]) == 4


def test_a_name_that_is_none_is_refused(state: Path) -> None:
    with pytest.raises(UsageError, match=r"'nothing' is no journal: `breakglass journal list`"):
        run("show", "nothing")


def test_a_file_that_is_no_journal_is_refused(state: Path, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    with pytest.raises(MalformedInput):
        run("timeline", str(path))


def test_timelines_of_several_are_printed_oldest_first(state: Path) -> None:
    names = sorted(path.stem for path in (state / "journal").glob("*/*.jsonl"))
    text = run("timeline", *reversed(names)).stdout
    assert text.index("Recovery of 4 partitions") < text.index("Group offsets of 1 partition")
    assert len(document("timeline", *names, "--json")["timelines"]) == 2


def led_by(leader: int | None, assignment: tuple[int, ...]) -> list[PartitionState]:
    return [PartitionState(order, TOPIC_ID, leader, 6, assignment, (), (), ()) for order in ORDERS]


@pytest.mark.parametrize(("leader", "result"), [(None, "not elected"), (2, "elected another")])
def test_unknown_outcomes_are_asked_for_again(
    user_folders: Path, leader: int | None, result: str
) -> None:
    path = journals.interrupted(state_folder(), CLUSTER_ID)
    with ExitStack() as stack:
        cluster = stack.enter_context(FakeCluster(3))
        cluster.story.states = {one.partition: one for one in led_by(leader, (1, 2, 3))}
        server = str(cluster.brokers[1].endpoint)
        told = document("check", "--json", "--bootstrap-server", server)
        again = run("check", path.stem, "--bootstrap-server", server)
    assert [one["result"] for one in told["answers"]] == [result] * 3
    assert told["left"] == 3
    assert again.stderr.startswith("No outcome of that journal is unknown.\n")
