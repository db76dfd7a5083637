"""The lab itself on real brokers: quick, small, obedient, and gone afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from breakglass.services.errors import LabError
from breakglass.services.lab import process
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern, produce
from breakglass.services.lab.tools import TOPICS, run_tool
from breakglass.services.lab.topics import create_topic, elect_unclean, reassign
from breakglass.services.model import TopicPartition, known
from tests.kit.waiting import wait_until
from tests.lab.conftest import FreshCluster

pytestmark = pytest.mark.slow

MOST_SECONDS_TO_UP = 20.0
"""On a machine that does nothing else."""
MOST_RESIDENT_BYTES = 160_000_000


def processes_of(state_dir: Path) -> list[int]:
    """The pids of everything whose command line speaks of the lab's folder."""
    found = []
    for one in psutil.process_iter(["cmdline", "status"]):
        words = one.info["cmdline"] or []
        if any(str(state_dir) in word for word in words) and one.pid != os.getpid():
            found.append(one.pid)
    return found


@pytest.fixture
def topic(three_brokers: Cluster, request: pytest.FixtureRequest) -> str:
    """A topic of this test's own with one partition, led by b1."""
    name: str = request.node.name.removeprefix("test_")
    create_topic(three_brokers, name, [[1, 2, 3]])
    return name


def test_four_nodes_are_up_in_20_seconds_and_small(fresh_cluster: FreshCluster) -> None:
    began = time.monotonic()
    cluster = fresh_cluster()
    took = time.monotonic() - began
    create_topic(cluster, "orders", [[1, 2, 3]] * 10)
    produce(cluster, "orders", 0, 1000)
    crowd = os.getloadavg()[0] / (os.cpu_count() or 1)
    assert took < MOST_SECONDS_TO_UP * max(1.0, crowd)
    sizes = {node.id: node.resident_bytes for node in cluster.nodes}
    assert all(0 < size < MOST_RESIDENT_BYTES for size in sizes.values()), sizes


def test_a_new_cluster_has_eligible_leader_replicas(three_brokers: Cluster, topic: str) -> None:
    assert known(three_brokers.partition(topic, 0).elr)


def test_nodes_start_from_the_class_data_archive(three_brokers: Cluster) -> None:
    for node in three_brokers.nodes:
        mapped = {map_.path for map_ in psutil.Process(node.pid).memory_maps()}
        assert any(path.endswith(".jsa") and "kafka-4.3.1" in path for path in mapped)


def test_what_is_acknowledged_is_told_exactly(three_brokers: Cluster, topic: str) -> None:
    first = produce(three_brokers, topic, 0, 3)
    second = produce(
        three_brokers, topic, 0, 2, acks="1", pattern=Pattern(label="x", start=7, value_bytes=40)
    )
    assert first.offsets == (0, 1, 2)
    assert second.offsets == (3, 4)
    assert [record.key for record in second.acked] == [b"x-7", b"x-8"]
    assert second.acked[0].value == f"x-7@{topic}-0".encode().ljust(40, b".")
    assert second.end == 5


def test_nothing_is_acknowledged_with_acks_0(three_brokers: Cluster, topic: str) -> None:
    written = produce(three_brokers, topic, 0, 3, acks="0")
    assert (written.acked, written.failed) == ((), 0)
    assert produce(three_brokers, topic, 0, 1).offsets == (3,)


def test_a_topic_that_exists_is_not_created_again(three_brokers: Cluster, topic: str) -> None:
    with pytest.raises(LabError, match="already exists"):
        create_topic(three_brokers, topic, [[1]])


def test_an_order_of_replicas_can_be_changed(three_brokers: Cluster, topic: str) -> None:
    reassign(three_brokers, {TopicPartition(topic, 0): (3, 1, 2)})
    state = three_brokers.wait_partition(
        topic, 0, lambda state: state.assignment == (3, 1, 2), "a new order"
    )
    assert set(state.isr) == {1, 2, 3}


def test_kafkas_own_tools_run_on_the_lab(three_brokers: Cluster, topic: str) -> None:
    arguments = ["--bootstrap-server", three_brokers.bootstrap_servers, "--describe"]
    described = run_tool(three_brokers.kafka, TOPICS, [*arguments, "--topic", topic]).check()
    assert f"Topic: {topic}" in described.stdout
    with pytest.raises(LabError, match="does not exist"):
        run_tool(three_brokers.kafka, TOPICS, [*arguments, "--topic", "nowhere"]).check()


def test_a_tool_that_does_not_end_is_ended(three_brokers: Cluster) -> None:
    arguments = ["--bootstrap-server", "127.0.0.1:1", "--list"]
    with pytest.raises(LabError, match=r"did not end within 0\.5 s"):
        run_tool(three_brokers.kafka, TOPICS, arguments, timeout=0.5)


def test_a_wait_in_vain_says_what_for(three_brokers: Cluster) -> None:
    with pytest.raises(LabError, match="in vain for brokers 2 to be fenced"):
        three_brokers.wait_fenced(2, timeout=0.2)


def test_an_unclean_election_needs_damage_and_an_order(fresh_cluster: FreshCluster) -> None:
    cluster = fresh_cluster(brokers=2)
    create_topic(cluster, "orders", [[1, 2]])
    cluster.broker(2).kill()
    cluster.wait_partition("orders", 0, lambda state: state.isr == (1,), "b1 alone in sync")
    produce(cluster, "orders", 0, 5)
    cluster.broker(1).kill()
    cluster.broker(2).start()
    cluster.wait_unfenced(2)
    cluster.wait_partition("orders", 0, lambda state: state.offline, "no leader")
    elect_unclean(cluster, TopicPartition("orders", 0))
    cluster.wait_partition("orders", 0, lambda state: state.leader == 2, "b2 leading")
    assert produce(cluster, "orders", 0, 1, acks="1").offsets == (0,)


def test_down_leaves_neither_process_nor_file(tmp_path: Path) -> None:
    state_dir = tmp_path / "lab"
    cluster = Cluster.up(state_dir, brokers=1, tethered=True)
    assert len(processes_of(state_dir)) == 2
    cluster.node(101).pause()
    Cluster.load(state_dir).down()
    assert processes_of(state_dir) == []
    assert not state_dir.exists()


def test_data_can_be_kept(tmp_path: Path) -> None:
    state_dir = tmp_path / "lab"
    cluster = Cluster.up(state_dir, brokers=1, tethered=True)
    create_topic(cluster, "orders", [[1]])
    produce(cluster, "orders", 0, 5)
    cluster.down(keep=True)
    with Cluster.load(state_dir) as again:
        again.start()
        assert produce(again, "orders", 0, 1).offsets == (5,)


def test_a_node_that_cannot_start_stops_the_whole_lab(tmp_path: Path) -> None:
    state_dir = tmp_path / "lab"
    cluster = Cluster.plan(state_dir, brokers=2, tethered=True)
    cluster.configure(2, {"log.retention.bytes": "many"})
    with pytest.raises(LabError, match=r"(?s)Node 2 ended.*log\.retention\.bytes"):
        cluster.start()
    assert processes_of(state_dir) == []


def test_another_process_with_a_recorded_pid_is_never_signalled(tmp_path: Path) -> None:
    cluster = Cluster.plan(tmp_path / "lab", brokers=1)
    folder = cluster.broker(1).layout.folder
    folder.mkdir(parents=True)
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        started = process.seconds_after_boot(psutil.Process(bystander.pid))
        for record in (
            process.ProcessRecord(bystander.pid, started, str(folder / "server.properties")),
            process.ProcessRecord(bystander.pid, started - 3600, "60"),
        ):
            process.save_record(record, folder / "process.json")
            assert not cluster.broker(1).running
            cluster.down(keep=True)
            assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


STARTER = """
import signal
import sys
from pathlib import Path
from breakglass.services.lab.cluster import Cluster

# As on a terminal: what runs the tests may have been started with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
cluster = Cluster.plan(Path(sys.argv[1]), brokers=1, tethered=sys.argv[2] == "tethered")
cluster.start()
print("up", flush=True)
sys.stdin.read()
"""


def start_elsewhere(state_dir: Path, how: str) -> subprocess.Popen[str]:
    """A Python process that starts a lab and then waits."""
    return subprocess.Popen(
        [sys.executable, "-c", STARTER, str(state_dir), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for_no_process(state_dir: Path) -> None:
    wait_until(
        lambda: not processes_of(state_dir),
        "every process to end",
        every=0.05,
        instead=lambda: processes_of(state_dir),
    )


def test_tethered_nodes_die_with_their_starter(tmp_path: Path) -> None:
    state_dir = tmp_path / "lab"
    with start_elsewhere(state_dir, "tethered") as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "up\n"
        starter.kill()
    wait_for_no_process(state_dir)


def test_ctrl_c_during_up_leaves_no_process(tmp_path: Path) -> None:
    state_dir = tmp_path / "lab"
    with start_elsewhere(state_dir, "free") as starter:
        wait_until((state_dir / "broker-1" / "process.json").exists, "b1 to be begun")
        starter.send_signal(signal.SIGINT)
        starter.wait(timeout=90)
    assert starter.returncode != 0
    assert not [pid for pid in processes_of(state_dir) if pid != starter.pid]


def test_a_lab_outlives_the_command_that_started_it(tmp_path: Path) -> None:
    state_dir = tmp_path / "lab"
    with start_elsewhere(state_dir, "free") as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == "up\n"
        starter.kill()
    with Cluster.load(state_dir) as cluster:
        cluster.wait_ready()
        assert json.loads((state_dir / "lab.json").read_text())["schema"] == 1
    assert processes_of(state_dir) == []


def test_the_older_kafka_runs_too(fresh_cluster: FreshCluster) -> None:
    cluster = fresh_cluster(kafka_version="3.9.2")
    create_topic(cluster, "orders", [[1, 2, 3]])
    assert produce(cluster, "orders", 0, 3).offsets == (0, 1, 2)
    assert all(node.resident_bytes < MOST_RESIDENT_BYTES for node in cluster.nodes)
    cluster.broker(3).kill()
    cluster.wait_fenced(3)
    cluster.broker(3).start()
    cluster.wait_ready()


def test_three_controllers_survive_the_loss_of_one(fresh_cluster: FreshCluster) -> None:
    cluster = fresh_cluster(brokers=1, controllers=3)
    cluster.node(101).kill()
    create_topic(cluster, "orders", [[1]])
    assert produce(cluster, "orders", 0, 1).offsets == (0,)
