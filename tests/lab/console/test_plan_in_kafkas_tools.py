"""A plan of ours in the hands of Kafka's own election tool (R24). Needs its jars, no broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.lab.distribution import distribution
from breakglass.services.lab.ports import free_ports
from breakglass.services.lab.tools import LEADER_ELECTION, ToolResult, run_tool
from breakglass.services.recovery.plan.document import Plan
from breakglass.services.recovery.plan.file import write_plan
from tests.unit.recovery.plans import EVERY_KIND, planned


@pytest.fixture
def impatience(tmp_path: Path) -> Path:
    """Client settings that give up at once."""
    path = tmp_path / "client.properties"
    path.write_text("default.api.timeout.ms=1500\nrequest.timeout.ms=1000\n")
    return path


def elected_by_kafka(plan: Plan, folder: Path, settings: Path) -> ToolResult:
    """Hand *plan* to LeaderElectionCommand, against a port where nobody listens."""
    path = folder / "plan.json"
    write_plan(plan, path)
    (port,) = free_ports(1)
    arguments = [
        "--bootstrap-server", f"127.0.0.1:{port}",
        "--election-type", "unclean",
        "--command-config", str(settings),
        "--path-to-json-file", str(path),
    ]  # fmt: skip
    return run_tool(distribution(), LEADER_ELECTION, arguments)


def test_r24_kafkas_own_tool_reads_our_plan_and_gets_as_far_as_the_cluster(
    tmp_path: Path, impatience: Path
) -> None:
    found = elected_by_kafka(planned(*EVERY_KIND), tmp_path, impatience)
    assert found.exit_code == 1
    assert "Timeout waiting for election results" in found.stdout + found.stderr


def test_r24_kafkas_own_tool_reads_exactly_the_partitions_that_the_plan_elects(
    tmp_path: Path, impatience: Path
) -> None:
    """Named twice, they are read back to us in its complaint."""
    once = planned(*EVERY_KIND)
    twice = Plan(entries=once.entries * 2, breakglass=once.breakglass)
    found = elected_by_kafka(twice, tmp_path, impatience)
    said = (found.stdout + found.stderr).splitlines()[0]
    complaint, _, listed = said.partition(": [")
    assert complaint == "Replica election data contains duplicate partitions"
    assert sorted(listed.rstrip("]").split(", ")) == sorted(map(str, once.leaders))
