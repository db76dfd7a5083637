"""The system test that KIP-1275 plans, with the installed program."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.damage import QUICK_TO_FENCE, lose, lose_last
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from tests.lab.asking import consume
from tests.lab.conftest import FreshCluster
from tests.lab.recover.writing import write

PROGRAM = Path(sys.executable).with_name("kafka-unclean-recovery")
PROGRAM_SECONDS = 600
PARTITIONS = tuple(TopicPartition("test", number) for number in range(3))
ASSIGNMENTS = ((3, 1, 2), (3, 2, 1), (3, 1, 2))


@pytest.fixture(params=["4.3.1", "3.9.2"])
def cluster(request: pytest.FixtureRequest, fresh_cluster: FreshCluster) -> Cluster:
    """Three brokers that elect nobody uncleanly by themselves."""
    return fresh_cluster(kafka_version=request.param, overrides=QUICK_TO_FENCE.overrides)


def recover(cluster: Cluster, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    command = [str(PROGRAM), "--bootstrap-server", cluster.bootstrap_servers, *map(str, arguments)]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROGRAM_SECONDS
    )


def leaders(cluster: Cluster) -> list[int | None]:
    return [partition.leader for partition in cluster.partitions("test")]


def test_kip_1275_system_test(cluster: Cluster, tmp_path: Path) -> None:
    create_topic(cluster, "test", ASSIGNMENTS)
    write(cluster, PARTITIONS, 100)
    lose(cluster, 2)
    write(cluster, PARTITIONS, 20)
    lose(cluster, 1)
    write(cluster, PARTITIONS, 5)
    assert [set(partition.isr) for partition in cluster.partitions("test")] == [{3}] * 3

    lose_last(cluster, 3, back=(1, 2))
    assert leaders(cluster) == [None] * 3

    begun = ("--recovery-duration-ms", 5_000)
    first = recover(cluster, "--automated-recovery", "--all-offline-partitions", *begun)
    assert first.returncode == 0, first.stderr
    assert leaders(cluster) == [1, 1, 1]
    assert all(len(consume(cluster, partition)) == 120 for partition in PARTITIONS)

    again = recover(cluster, "--automated-recovery", "--all-offline-partitions")
    assert again.returncode == 0, again.stderr
    named = tmp_path / "partitions.json"
    named.write_text(json.dumps({"partitions": [{"topic": "test", "partitions": [0, 1, 2]}]}))
    by_file = recover(cluster, "--automated-recovery", "--path-to-json-file", named)
    assert by_file.returncode == 0, by_file.stderr
    assert by_file.stdout.count("already online: led by b1") == 3


def test_r15_a_broker_that_comes_back_within_the_duration_is_waited_for(cluster: Cluster) -> None:
    """b3 led last; what it alone holds is cut if b1 is elected before b3 is back."""
    create_topic(cluster, "test", ASSIGNMENTS)
    write(cluster, PARTITIONS, 100)
    lose(cluster, 2)
    lose(cluster, 1)
    write(cluster, PARTITIONS, 5)
    lose_last(cluster, 3, back=(1, 2))
    command = [str(PROGRAM), "--bootstrap-server", cluster.bootstrap_servers]
    command += ["--automated-recovery", "--all-offline-partitions"]
    command += ["--recovery-duration-ms", str(PROGRAM_SECONDS * 1000)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stderr is not None
        first = program.stderr.readline()
        cluster.broker(3).start()
        out, err = program.communicate(timeout=PROGRAM_SECONDS)
    assert program.returncode == 0, first + err
    assert leaders(cluster) == [3, 3, 3], out
    assert all(len(consume(cluster, partition)) == 105 for partition in PARTITIONS)
