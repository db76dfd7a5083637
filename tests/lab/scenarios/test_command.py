"""`breakglass lab scenario`: a list, a damaged lab with its truth, or nothing at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.main import get_command

from breakglass.console.lab import app
from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.play import perform
from breakglass.services.lab.scenarios.scenario import Scenario, alone
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.truth import (
    Expectation,
    from_json,
)
from tests.kit.truth import load_truth


def run(*words: str) -> None:
    get_command(app).main(["scenario", *words], standalone_mode=False)


def test_without_a_name_the_scenarios_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    run()
    assert "stale-replicas" in capsys.readouterr().out
    run("--json")
    listed = {load["name"]: load for load in json.loads(capsys.readouterr().out)}
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
