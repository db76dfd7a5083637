"""The lab itself on real brokers: small, obedient, and gone afterwards."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.main import get_command

from breakglass.console.lab import app
from breakglass.services.errors import BreakglassError, LabError, UsageError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import produce
from breakglass.services.lab.topics import create_topic
from tests.kit.waiting import wait_until


def processes_of(state_dir: Path) -> list[int]:
    """The pids of everything whose command line speaks of the lab's folder."""
    found = []
    for one in psutil.process_iter(["cmdline", "status"]):
        words = one.info["cmdline"] or []
        if any(str(state_dir) in word for word in words) and one.pid != os.getpid():
            found.append(one.pid)
    return found


def test_down_leaves_neither_process_nor_file(tmp_path: Path) -> None:
    state_dir = tmp_path / "lab"
    cluster = Cluster.up(state_dir, brokers=1, tethered=True)
    assert len(processes_of(state_dir)) == 2
    cluster.node(101).pause()
    Cluster.load(state_dir).down()
    assert processes_of(state_dir) == []
    assert not state_dir.exists()


def test_data_can_be_kept_and_another_cluster_at_its_ports_is_named(tmp_path: Path) -> None:
    state_dir = tmp_path / "lab"
    cluster = Cluster.up(state_dir, brokers=1, tethered=True)
    create_topic(cluster, "orders", [[1]])
    produce(cluster, "orders", 0, 5)
    cluster.down(keep=True)
    with Cluster.load(state_dir) as again:
        again.start()
        assert produce(again, "orders", 0, 1).offsets == (5,)
        again.layout = replace(again.layout, cluster_id="another")
        with pytest.raises(LabError, match="took its ports"):
            again.wait_ready()


def test_a_node_that_cannot_start_stops_the_whole_lab(tmp_path: Path) -> None:
    state_dir = tmp_path / "lab"
    cluster = Cluster.plan(state_dir, brokers=2, tethered=True)
    cluster.configure(2, {"log.retention.bytes": "many"})
    with pytest.raises(LabError, match=r"(?s)Node 2 ended.*log\.retention\.bytes"):
        cluster.start()
    assert processes_of(state_dir) == []


STARTER = """
import signal
import sys
from dataclasses import replace
from pathlib import Path
from breakglass.services.lab.cluster import Cluster

# As on a terminal: what runs the tests may have been started with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
cluster = Cluster.plan(Path(sys.argv[1]), brokers=1, tethered=sys.argv[2] == "tethered")
cluster.start()
print("up", flush=True)
sys.stdin.read()
"""


def start_elsewhere(state_dir: Path, how: str) -> subprocess.Popen[str]:
    """A Python process that starts a lab and then waits."""
    return subprocess.Popen(
        [sys.executable, "-c", STARTER, str(state_dir), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_tethered_nodes_die_with_their_starter(tmp_path: Path) -> None:
    state_dir = tmp_path / "lab"
    with start_elsewhere(state_dir, "tethered") as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "up\n"
        starter.kill()
    wait_until(
        lambda: not processes_of(state_dir),
        "every process to end",
        every=0.05,
        instead=lambda: processes_of(state_dir),
    )


def test_ctrl_c_during_up_leaves_no_process(tmp_path: Path) -> None:
    state_dir = tmp_path / "lab"
    with start_elsewhere(state_dir, "free") as starter:
        wait_until((state_dir / "broker-1" / "process.json").exists, "b1 to be begun")
        starter.send_signal(signal.SIGINT)
        starter.wait(timeout=600)
    assert starter.returncode != 0
    assert not [pid for pid in processes_of(state_dir) if pid != starter.pid]


def test_a_lab_outlives_the_command_that_started_it(tmp_path: Path) -> None:
    state_dir = tmp_path / "lab"
    with start_elsewhere(state_dir, "free") as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "up\n"
        starter.kill()
    with Cluster.load(state_dir) as cluster:
        cluster.wait_ready()
        assert json.loads((state_dir / "lab.json").read_text())["schema"] == 1
    assert processes_of(state_dir) == []


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
