"""kill -9 before every operation of a restore: nothing wrong is ever seen, and it can go on."""

import json
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.metastore.lines import CommandRecord
from tests.kit.program import breakglass
from tests.lab.ksql.commands import backed_up
from tests.lab.ksql.crashing import restore_here
from tests.lab.ksql.topics import SECONDS, SETTINGS, CommandTopic
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import stored

POINTS = range(1, 17)
"""A restore of three commands with gaps has so many operations; the test of them counts."""


def killed_at(point: int, topic: CommandTopic, file: Path, folder: Path) -> tuple[int, str]:
    """Exit code and output of a restore that ends before its operation *point*."""
    words = [topic.cluster.bootstrap_servers, topic.service_id, str(file), str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.lab.ksql.crashing", *words, str(point)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, done.stdout


@pytest.fixture
def backup(topic: CommandTopic, folder: Path) -> tuple[Path, list[CommandRecord]]:
    """Three commands at 0, 2 and 4."""
    written = topic.produce(Generator(61).records(3))
    return folder / str(backed_up(topic, folder).last["file"]), written


def another(topic: CommandTopic) -> list[CommandRecord]:
    """What a server has put in the place of what was lost."""
    topic.delete()
    topic.create()
    return topic.produce(Generator(62).records(2))


def test_the_points_are_all_there_are(
    topic: CommandTopic, backup: tuple[Path, list[CommandRecord]], tmp_path: Path
) -> None:
    another(topic)
    code, told = killed_at(1_000, topic, backup[0], tmp_path / "state")
    assert (code, told) == (0, f"{len(POINTS)} True\n")


@pytest.mark.parametrize("points", [POINTS[:4], POINTS[4:8], POINTS[8:12], POINTS[12:]], ids=str)
def test_a_restore_that_is_killed_goes_on(
    points: range, topic: CommandTopic, backup: tuple[Path, list[CommandRecord]], tmp_path: Path
) -> None:
    file, written = backup
    held = file.read_bytes()
    for point in points:
        other = another(topic)
        folder = tmp_path / f"state-{point}"
        code, _ = killed_at(point, topic, file, folder)
        assert code == -signal.SIGKILL, point
        assert file.read_bytes() == held
        left = left_of(topic)
        assert left in (None, [], other, written), point
        snapshots = list((folder / "snapshots").glob("*/*.bak"))
        assert left == other or [stored(snapshot) for snapshot in snapshots] == [other], point
        done = restore_here(topic.cluster.bootstrap_servers, topic.service_id, file, folder)
        assert done.verified, point
        assert topic.read() == written, point


KILLED = """
import os, signal
from breakglass.services.kafka.admin_client import TopicClient
from breakglass.services.metastore.log.writer import Transactions
create = TopicClient.create
def die(*words, **named):
    if named.get("validate_only"):
        return create(*words, **named)
    os.kill(os.getpid(), signal.SIGKILL)
{point} = die
from breakglass.console.cli import main
raise SystemExit(main())
"""
"""The program, killed at a point: the topic is deleted, or all is written and nothing visible."""


@pytest.mark.parametrize(
    ("point", "left"),
    [("TopicClient.create", None), ("Transactions.commit", [])],
    ids=["deleted", "written"],
)
def test_r49_a_killed_restore_goes_on_with_the_same_consent_after_a_check_of_its_journal(
    three_brokers: Cluster, folder: Path, point: str, left: list[CommandRecord] | None
) -> None:
    topic = CommandTopic(three_brokers, f"test_{uuid.uuid4().hex[:8]}_")
    own = {**SETTINGS, "min.insync.replicas": "2"}
    topic.create(own, (1, 2, 3))
    written = topic.produce(Generator(61).records(3))
    file = folder / str(backed_up(topic, folder).last["file"])
    topic.delete()
    topic.create(own, (1, 2, 3))
    topic.produce(Generator(62).records(2))
    words = ["ksql", "restore", str(file), "--write", "--consent", f"{topic.name} lose 2"]
    at = ["--bootstrap-server", topic.cluster.bootstrap_servers]
    words += at
    program = [sys.executable, "-c", KILLED.replace("{point}", point), *words]
    killed = subprocess.run(program, capture_output=True, timeout=SECONDS, check=False)
    assert (killed.returncode, left_of(topic)) == (-signal.SIGKILL, left)
    assert breakglass("journal", "check", *at).code == 4
    account = json.loads(breakglass("journal", "show", *at, "--json").out)
    assert account["result"] == "interrupted"
    done = breakglass(*words)
    assert done.code == 0, done.err
    assert topic.read() == written
    assert topic.settings()["min.insync.replicas"] == "2"
    assert len(three_brokers.partition(topic.name, 0).assignment) == 3
    assert "the commands before are in" in done.out


def left_of(topic: CommandTopic) -> list[CommandRecord] | None:
    """What consumers see; None where there is no topic."""
    if all(partition.partition.topic != topic.name for partition in topic.cluster.partitions()):
        return None
    return topic.read()
