"""The voters of a dynamic quorum, as Kafka's own tool formats them."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.lab.distribution import distribution, run_tool
from breakglass.services.lab.node import kafka_uuid
from breakglass.services.lab.properties import render
from tests.kit.program import breakglass

pytestmark = [pytest.mark.lab]


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_q09_voters_of_a_formatted_dynamic_quorum_are_read(version: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    voters = [f"{node}@127.0.0.1:{9000 + node}:{kafka_uuid()}" for node in (11, 12, 13)]
    config = tmp_path / "format.properties"
    settings = {
        "process.roles": "controller",
        "node.id": "11",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9011",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://127.0.0.1:9011",
        "log.dirs": str(data),
    }
    config.write_text(render(settings), encoding="utf-8")
    listed = ("--initial-controllers", ",".join(voters))
    arguments = ("format", "-t", kafka_uuid(), "-c", str(config), *listed)
    run_tool(distribution(version), "kafka.tools.StorageTool", arguments).check()

    ended = breakglass("quorum", "inspect", f"log:{data}", "--json")
    (copy,) = ended.document["copies"]
    assert copy["voters"] == {"dynamic": True, "ids": [11, 12, 13]}
    assert (copy["node"], copy["log_end"]) == (11, 0)
    assert [one["offset"] for one in copy["snapshots"]] == [0]
    # Nothing ran yet, so raft has noted no epoch.
    assert [one["file"] for one in copy["damage"]] == ["quorum-state"]
    assert ended.code == 1
