"""`breakglass lab scenario` damages a lab as its truth says, and `breakglass diff` finds that."""

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from breakglass.console.lab import app
from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.scenario import Scenario, Stage, alone, perform
from breakglass.services.lab.truth import Expectation, from_json
from breakglass.services.model import TopicPartition
from tests.kit.program import breakglass
from tests.kit.truth import load_truth
from tests.lab.scenarios.damaged import Damaged


def run(*words: str) -> None:
    get_command(app).main(["scenario", *words], standalone_mode=False)


def test_without_a_name_the_scenarios_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    run()
    assert "stale-replicas" in capsys.readouterr().out
    run("--json")
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)["scenarios"]}
    assert listed["many"]["options"] == {"partitions": "2000"}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["earthquake"], "no scenario earthquake"),
        (["many", "--set", "size=3"], "no option size: these scenarios know partitions"),
        (["many", "hung-broker"], "damage a lab in different ways"),
    ],
)
def test_what_cannot_be_played_is_refused_before_a_broker_starts(
    words: list[str], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(LabError, match=complaint):
        run(*words, "--state", str(tmp_path / "lab"))
    assert not (tmp_path / "lab").exists()


def test_a_damaged_lab_is_left_running_with_its_truth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "lab"
    run("many", "empty-replica", "--set", "partitions=20", "--state", str(folder), "--json")
    with Cluster.load(folder) as cluster:
        printed = from_json(capsys.readouterr().out)
        assert printed == load_truth(folder)
        assert printed.scenarios == ("many", "empty-replica")
        assert len(printed.of("many")) == 20
        assert [node.id for node in cluster.brokers if node.running] == [1, 2]
        assert all(state.offline for state in cluster.partitions("events", "invoices"))


def test_a_scenario_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    started: list[Cluster] = []

    def fail(stage: Stage) -> Sequence[Expectation]:
        started.append(stage.cluster)
        raise LabError("the damage could not be done")

    with pytest.raises(LabError, match="could not be done"):
        perform(tmp_path / "lab", [Scenario("failing", "", alone(fail))], tethered=True)
    assert not (tmp_path / "lab").exists()
    assert not any(node.running for node in started[0].nodes)


BROKERS = (1, 2, 3)


def address(lab: Damaged, kind: str, broker: int) -> str:
    if kind == "replica":
        return f"replica:{broker}/ledger/0"
    return f"log:{lab.cluster.broker(broker).partition_folder('ledger', 0)}"


def diff(lab: Damaged, left: str, right: str) -> tuple[int, dict[str, Any]]:
    servers = lab.cluster.bootstrap_servers
    ended = breakglass("diff", left, right, "--json", "--bootstrap-server", servers)
    return ended.code, json.loads(ended.out)


def expected(lab: Damaged, left: int, right: int) -> dict[str, int]:
    """By leader epochs: what both hold of one epoch at one offset is the same record."""
    truth = lab.truth_of(TopicPartition("ledger", 0))
    one, other = ({at: held.epoch for held in truth.replica(broker).epochs
                   for at in range(held.start, held.end)} for broker in (left, right))  # fmt: skip
    both = one.keys() & other.keys()
    same = sum(one[at] == other[at] for at in both)
    return {
        "equal": same,
        "left": len(one.keys() - both),
        "right": len(other.keys() - both),
        "different": len(both) - same,
        "unread": 0,
    }


KINDS: list[tuple[str, str]] = [("replica", "replica"), ("replica", "log")]
CASES = [
    (kinds, *brokers)
    for kinds in KINDS
    for brokers in combinations(BROKERS, 2)
    # b3 is dead: its log is on its disk alone.
    if kinds[1] == "log" or 3 not in brokers
]


@pytest.mark.parametrize(("kinds", "left", "right"), CASES)
def test_two_logs_of_an_offline_partition_differ_as_the_truth_says(
    three_losses: Damaged, kinds: tuple[str, str], left: int, right: int
) -> None:
    sides = [address(three_losses, kind, at) for kind, at in zip(kinds, (left, right), strict=True)]
    code, told = diff(three_losses, *sides)
    wanted = expected(three_losses, left, right)
    assert told["totals"] == wanted
    assert code == (1 if wanted["left"] or wanted["right"] or wanted["different"] else 0)
    _, mirrored = diff(three_losses, *sides[::-1])
    assert mirrored["totals"] == {**wanted, "left": wanted["right"], "right": wanted["left"]}


def test_the_topic_is_refused_and_its_replicas_are_named(three_losses: Damaged) -> None:
    servers = ("--bootstrap-server", three_losses.cluster.bootstrap_servers)
    ended = breakglass("diff", "topic:ledger/0", "replica:1/ledger/0", *servers)
    assert ended.code == 1
    assert "compare its replicas, as replica:" in ended.err
