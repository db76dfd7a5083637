"""`breakglass lab`, command by command, on one lab of two brokers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from breakglass.console.lab import app
from breakglass.services.errors import BreakglassError, LabError, UsageError
from breakglass.services.lab.cluster import Cluster


class LabCommand:
    """Runs ``breakglass lab`` on one state folder and gives back what it prints."""

    def __init__(self, state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.state_dir = state_dir
        self._capsys = capsys

    def __call__(self, *words: str) -> str:
        command, *rest = words
        arguments = [command, "--state", str(self.state_dir), *rest]
        self._capsys.readouterr()
        get_command(app).main(arguments, standalone_mode=False)
        return self._capsys.readouterr().out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))

    def state_of(self, node: int) -> str:
        """Whether a node is running, paused or down."""
        nodes = self.json("list")["nodes"]
        found: str = next(one["state"] for one in nodes if one["id"] == node)
        return found


@pytest.fixture
def lab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[LabCommand]:
    """The command on a folder of its own; whatever it started is ended."""
    state_dir = tmp_path / "lab"
    yield LabCommand(state_dir, capsys)
    if (state_dir / "lab.json").exists():
        Cluster.load(state_dir).down()


def test_a_lab_is_started_broken_mended_and_ended(lab: LabCommand) -> None:
    summary = lab.json("up", "--brokers", "2", "--config", "num.io.threads=2")
    assert len(summary["bootstrap_servers"].split(",")) == 2
    assert "num.io.threads=2" in (lab.state_dir / "broker-1" / "server.properties").read_text()
    with pytest.raises(LabError, match="A lab runs in"):
        lab("up")

    assert "running" in lab("list")
    assert lab("produce", "orders", "--count", "3") == "3 acknowledged; next offset 3\n"
    written = lab.json("produce", "orders", "--count", "2", "--acks", "1")
    assert written.pop("schema") == summary["schema"] == 1
    assert written == {"topic": "orders", "partition": 0, "acks": "1", "offsets": [3, 4]}

    lab("kill", "2")
    assert lab.state_of(2) == "down"
    lab("start", "2")
    assert lab.state_of(2) == "running"
    lab("pause", "2")
    assert lab.state_of(2) == "paused"
    lab("resume", "2")
    lab("stop", "2")
    assert lab.state_of(2) == "down"
    with pytest.raises(LabError, match="no node 9"):
        lab("kill", "9")

    lab("down")
    assert not lab.state_dir.exists()


@pytest.mark.parametrize("command", ["list", "down", "kill 1", "produce orders"])
def test_without_a_lab_a_command_says_how_to_start_one(lab: LabCommand, command: str) -> None:
    with pytest.raises(LabError, match="start one with `lab up`"):
        lab(*command.split())


def test_a_setting_without_a_value_starts_nothing(lab: LabCommand) -> None:
    with pytest.raises(UsageError, match="write KEY=VALUE"):
        lab("up", "--config", "num.io.threads")
    assert not lab.state_dir.exists()


def test_an_unknown_release_is_refused_with_what_to_check(
    lab: LabCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BREAKGLASS_MAVEN_REPOSITORY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "*")
    with pytest.raises(BreakglassError, match=r"Kafka 0\.0\.1 could not be fetched"):
        lab("up", "--kafka-version", "0.0.1")
