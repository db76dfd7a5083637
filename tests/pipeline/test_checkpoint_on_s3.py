"""Checkpoints in a real S3 server, by the commands alone; two machines work in one store."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.lab.cluster import Cluster
from tests.kit.program import Ended, breakglass
from tests.lab.checkpoint.commands import Program
from tests.pipeline.producing import committed_bytes, make, numbered, produce
from tests.pipeline.s3_server import S3

pytestmark = pytest.mark.slow

PARTITIONS, RECORDS = 2, 3_000


@pytest.fixture
def program(broker: Cluster, s3: S3, topic: str, tmp_path: Path, user_folders: Path) -> Program:
    """Breakglass on this machine, with a topic to take checkpoints of."""
    make(broker, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(broker, topic, numbered(RECORDS), partition)
    address = f"{s3.url}/commands-{topic}"
    return Program(broker.bootstrap_servers, tmp_path, user_folders / "state", address)


def here(program: Program, command: str, *arguments: str) -> Ended:
    """Run a command that starts no Spark in this process, which takes less time."""
    return breakglass("checkpoint", command, "--store", program.url, *arguments)


def changed(program: Program, command: str, *arguments: str) -> Ended:
    """Change the store with the consent that is asked for."""
    phrase = here(program, command, *arguments, "--write").said[-1].removeprefix("consent: ")
    return here(program, command, *arguments, "--write", "--consent", phrase, "--json")


def scope(program: Program, topic: str) -> tuple[str, ...]:
    of = ("--topics", topic, "--level", "vector", "--control-topic", f"control-{topic}")
    return (*of, "--bootstrap-server", program.bootstrap)


@pytest.mark.timeout(600)
def test_checkpoints_in_s3_are_taken_listed_verified_restored_deleted_and_pruned(
    program: Program, broker: Cluster, topic: str
) -> None:
    for id in (1, 2, 3):
        taken = here(program, "take", *scope(program, topic), "--json")
        assert (taken.code, taken.document["id"]) == (0, id), taken.err
    listed = here(program, "list", "--json").document["checkpoints"]
    assert [(found["id"], found["state"]) for found in listed] == [
        (id, "completed") for id in (3, 2, 1)
    ]
    verified = here(program, "verify", "3", "--json")
    assert (verified.code, verified.document["damage"]) == (0, {})
    target = f"{topic}-back"
    phrase = f"restore checkpoint 3 with {PARTITIONS * RECORDS:,} records into {target}"
    into = ("--map", f"{topic}={target}", "--control-topic", f"control-{topic}")
    restored = program.whole("restore", "3", *into, "--write", "--consent", phrase)
    assert restored["whole"]
    for partition in range(PARTITIONS):
        back = committed_bytes(broker, target, partition)
        assert back == committed_bytes(broker, topic, partition)
    assert changed(program, "delete", "1").document["deleted"] == [1]
    assert changed(program, "retain", "--keep", "1").document["checkpoints"] == [2]
    listed = here(program, "list", "--json").document["checkpoints"]
    assert [found["id"] for found in listed] == [3]


@pytest.mark.timeout(300)
def test_two_machines_with_one_number_are_detected_and_another_number_takes_over(
    program: Program, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with program.running("take", *scope(program, topic)[:-2], "--max-rate", "1kB/s") as take:
        take.wait_for("checkpoint 1 is acknowledged")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "there"))
        cluster = ("--bootstrap-server", program.bootstrap)
        refused = here(program, "finish", "1", *cluster)
        assert refused.code == 3
        assert "node 0 of checkpoint 1 is another machine" in refused.err
        take.kill()
    done = here(program, "finish", "1", "--node", "1", *cluster, "--json")
    assert (done.code, done.document["state"]) == (0, "completed"), done.err
    found = BackupStore(program.url).read(1)
    assert found is not None
    counting = [part.counting for part in found.partitions]
    assert [copy.id.node for copy in counting if copy is not None] == [1] * PARTITIONS
