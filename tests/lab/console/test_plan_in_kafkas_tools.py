"""A plan of ours in the hands of Kafka's own election tool (R24). Needs its jars, no broker."""

from __future__ import annotations

from pathlib import Path

from breakglass.services.lab.distribution import distribution
from breakglass.services.lab.ports import free_ports
from breakglass.services.lab.tools import LEADER_ELECTION, run_tool
from breakglass.services.recovery.plan.document import Plan
from breakglass.services.recovery.plan.file import write_plan
from tests.unit.recovery.plans import EVERY_KIND, planned


def test_r24_kafkas_own_tool_reads_exactly_the_partitions_that_the_plan_elects(
    tmp_path: Path,
) -> None:
    """Named twice, they are read back to us in its complaint, before it asks any broker."""
    once = planned(*EVERY_KIND)
    twice = Plan(entries=once.entries * 2, breakglass=once.breakglass)
    path = tmp_path / "plan.json"
    write_plan(twice, path)
    (port,) = free_ports(1)
    where = ["--bootstrap-server", f"127.0.0.1:{port}", "--path-to-json-file", str(path)]
    found = run_tool(distribution(), LEADER_ELECTION, [*where, "--election-type", "unclean"])
    said = (found.stdout + found.stderr).splitlines()[0]
    complaint, _, listed = said.partition(": [")
    assert complaint == "Replica election data contains duplicate partitions"
    assert sorted(listed.rstrip("]").split(", ")) == sorted(map(str, once.leaders))
