"""The screen of the quorum over three real controllers: one stops, then two, then their disks."""

import json
from functools import partial
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.quorum.metadata_copy import LogPosition, read_copy
from tests.kit.waiting import wait_until
from tests.lab.console.test_electing_on_screen import console
from tests.lab.quorum.lagging import OLD, addresses, produce
from tests.terminal.pty_terminal import PtyTerminal

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def shown_by(terminal: PtyTerminal, words: str) -> None:
    """Wait until *words* are on the screen, wherever its lines are broken."""
    terminal.until(lambda: words in " ".join(terminal.text.split()), words)


def test_q17_q18_whom_to_start_is_seen_and_without_disks_the_folder_is_prepared(
    tmp_path: Path,
) -> None:
    out, plan = tmp_path / "out", tmp_path / "out.plan.json"
    with Cluster.up(tmp_path / "lab", brokers=2, controllers=3, tethered=True) as cluster:
        create_topic(cluster, OLD, [(1, 2)])
        produce(cluster, OLD, 1, 10, idempotent=False)
        with console(cluster.lab_bootstrap, "--write") as operator:
            terminal = operator.terminal
            shows = partial(shown_by, terminal)
            shows("? help")
            operator.press("9")
            shows("and all 3 voters answer.")
            first, second, last = cluster.controllers
            first.kill()
            shows(f"Start c{first.id} with its own disk")
            second.kill()
            shows(f"Start c{first.id} or c{second.id} with its own disk")
            shows("Do not format a controller")
            operator.press("enter")
            shows(f"c{first.id} at ")
            shows("Answers: no: ")
            operator.press("escape")
            first.start()
            shows("leads at epoch")

            for node in cluster.nodes:
                if node.running:
                    node.kill()
            shows("No controller leads: 0 of 3 voters answer")
            operator.press("f")
            shows("Copies")
            operator.press("ctrl+u")
            terminal.type(" ".join(addresses(*cluster.brokers)))
            operator.press("enter")
            shows("The best copy is")
            operator.press("p")
            shows("New voter")
            terminal.type(str(last.id))
            operator.press("enter")
            shows("leads alone")
            operator.press("p")
            shows("Folder to write")
            operator.press("ctrl+u")
            terminal.type(str(out))
            operator.press("enter")
            wait_until(lambda: plan.exists(), "the plan")
            shows("Loses")
            operator.press("tab")
            for phrase in json.loads(plan.read_text())["consent"]:
                shows(phrase)
                terminal.type_phrase(phrase)
                operator.press("enter")
            shows("Stop every node that these steps start")
            operator.press("w")
            shows("Waiting: The brokers do not answer.")
            operator.press("q")
            assert terminal.exit_code() == 0
    written = read_copy(out / "__cluster_metadata-0")
    assert (written.node, written.end > LogPosition(1_000, 0)) == (last.id, True)
