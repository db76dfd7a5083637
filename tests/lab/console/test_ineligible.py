"""Replicas that hold the most and cannot be elected: refused with the reason, wherever named."""

from __future__ import annotations

from pathlib import Path

from breakglass.services.lab.cluster import Cluster
from tests.kit.program import breakglass
from tests.lab.console.commands import leader, on
from tests.lab.console.test_recover_by_plan import bare_file
from tests.lab.scenarios.damaged import damaged


def refused_everywhere(
    cluster: Cluster, folder: Path, topic: str, broker: int, *, reason: str
) -> None:
    """Fail unless electing *broker* on partition 0 is refused by a plan, a bare plan and a file."""
    plan = folder / "plan.json"
    on(cluster, "plan", "make", "--topics", topic, "--out", plan)
    before = plan.read_bytes()
    ended = breakglass("plan", "set", plan, f"{topic}-0={broker}")
    assert (ended.code, ended.said) == (3, [f"b{broker} cannot lead {topic}-0: {reason}."])
    assert plan.read_bytes() == before

    bare = bare_file(folder, {(topic, 0): broker})
    ended = on(cluster, "recover", "--plan", bare, "--write")
    assert ended.code == 3
    assert ended.said == [f"{topic}-0  refused: {reason}: choose another leader"]
    designated = ("--election-type", "designated", "--path-to-json-file", bare, "--write")
    ended = on(cluster, "leader-election", *designated)
    assert ended.code == 3
    assert f"{topic}-0  refused: {reason}" in ended.said
    assert leader(cluster, topic) is None


def test_r16_a_replica_whose_log_directory_is_offline(tmp_path: Path) -> None:
    with damaged(tmp_path / "lab", "failed-logdir") as lab:
        reason = "the log directory of b1 is offline"
        refused_everywhere(lab.cluster, tmp_path, "readings", 1, reason=reason)


def test_r16_a_replica_that_clients_reach_and_its_controllers_do_not(tmp_path: Path) -> None:
    with damaged(tmp_path / "lab", "fenced-designee") as lab:
        readable = [
            replica for replica in lab.truth.partition("payments", 0).replicas if replica.readable
        ]
        assert max(readable, key=lambda truth: truth.log_end).broker == 3
        refused_everywhere(lab.cluster, tmp_path, "payments", 3, reason="b3 is fenced")
