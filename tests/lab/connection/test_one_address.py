"""Whoever was given the address of one broker goes on by the others, and says when that ends."""

import sys
from pathlib import Path

import pytest

from breakglass.services.lab.topics import create_topic
from breakglass.services.monitoring import meters
from tests.kit.program import breakglass
from tests.kit.running import Running, running
from tests.kit.waiting import wait_until
from tests.lab.conftest import FreshCluster
from tests.lab.monitoring.incident import exporting, value
from tests.terminal.conftest import environment
from tests.terminal.pty_terminal import PtyTerminal

PROGRAM = Path(sys.executable).parent / "breakglass"
TOPIC = "orders"


def test_r40_console_exporter_and_capture_go_on_by_the_other_brokers_and_then_know_nothing(
    fresh_cluster: FreshCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = fresh_cluster(brokers=3)
    create_topic(cluster, TOPIC, [[1], [1], [2]])
    first, *_ = cluster.bootstrap_servers.split(",")
    servers, state = ("--bootstrap-server", first), tmp_path / "state"
    bundles = tmp_path / "bundles"
    watching = ("bundle", "capture", *servers, "--watch", "--out", bundles)
    with (
        exporting(first, state) as exporter,
        running(state, *watching) as capture,
        PtyTerminal((PROGRAM, *servers), env=environment(XDG_STATE_HOME=str(state))) as terminal,
    ):
        terminal.wait_for("No partition is offline.")
        exporter.until(lambda stage: value(stage, meters.OFFLINE) == 0, "a whole cluster")
        wait_until(lambda: list(bundles.glob("*.gz")), "a first bundle")

        cluster.broker(1).kill()
        cluster.wait_fenced(1)
        terminal.wait_for("2 offline")
        exporter.until(lambda stage: value(stage, meters.OFFLINE) == 2, "two offline partitions")
        said(capture, "2 partitions offline")
        monkeypatch.setenv("XDG_STATE_HOME", str(state))
        later = breakglass("triage", *servers, "--json")
        assert len(later.document["partitions"]) == 2, later.err

        for broker in (2, 3):
            cluster.broker(broker).kill()
        terminal.wait_for("UNKNOWN for ")
        terminal.wait_for("2 offline. It said:")
        exporter.until(lambda stage: value(stage, meters.OFFLINE) is None, "no figure of it")
        said(capture, "the cluster could not be read")


def test_r41_a_console_without_a_cluster_says_what_it_saw_last_and_that_it_knows_nothing(
    fresh_cluster: FreshCluster, tmp_path: Path
) -> None:
    cluster = fresh_cluster(brokers=1)
    env = environment(XDG_STATE_HOME=str(tmp_path))
    command = (PROGRAM, "--bootstrap-server", cluster.bootstrap_servers)
    with PtyTerminal(command, env=env) as terminal:
        terminal.wait_for("No partition is offline.")
        cluster.broker(1).kill()
        terminal.wait_for("UNKNOWN for ")
        terminal.wait_for("none offline.")
        terminal.wait_for("Nothing was offline at ")
        assert "? offline" in terminal.lines[0]
        assert "No partition is offline" not in terminal.text


def said(program: Running, words: str) -> None:
    """Wait until *program* says so."""

    def so() -> bool:
        return words in "\n".join((program.out, *program.said))

    wait_until(so, words, instead=lambda: program.said)
