"""A checkpoint of a real broker is verified, damaged, refused to be restored, and brought back."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import produce
from breakglass.services.lab.topics import create_topic
from tests.lab.checkpoint.commands import Program

RECORDS = 50


@pytest.fixture
def program(broker: Cluster, tmp_path: Path) -> Program:
    """Checkpoint 1 is of a topic of its own."""
    topic = f"verified-{tmp_path.name.replace('_', '-')[-40:]}"
    create_topic(broker, topic, [[1], [1]])
    for partition in (0, 1):
        produce(broker, topic, partition, RECORDS)
    found = Program(broker.bootstrap_servers, tmp_path / "store", tmp_path / "state")
    assert found.whole("take", "--topics", topic, "--level", "vector")["id"] == 1
    return found


@pytest.mark.timeout(180)
def test_damage_is_found_without_a_broker_and_keeps_it_from_being_restored(
    program: Program,
) -> None:
    done = program.whole("verify", "1", cluster=False)
    assert (done["whole"], done["damage"]) == (True, {})
    held = program.store / "contents" / "1" / "2"
    files = [path for path in held.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert 0 < len(files) <= done["files"]
    (records,) = (file for file in files if file.name.endswith("_records"))
    content = records.read_bytes()
    records.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    damaged = program("verify", "1", cluster=False)
    assert damaged.code == 1
    assert f"{records.name} has other bytes than were committed" in damaged.err
    refused = program("restore", "1", "--suffix", "-again", "--dry-run")
    assert refused.code == 1
    assert "has other bytes than were committed" in refused.err
    records.write_bytes(content)
    assert program.whole("verify", "1", cluster=False)["whole"]
    assert program("restore", "1", "--suffix", "-again", "--dry-run").code == 0
