"""One node of the lab: lost, hung, stopped, with new disks, and back again.

One cluster, damaged step by step; each test leaves every broker running behind.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from breakglass.services.errors import LabError, Unreachable
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.produce import produce
from breakglass.services.lab.topics import create_topic
from breakglass.services.lab.wire import Conversation

MOST_RESIDENT_BYTES = 160_000_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers with the topic `orders`, on all of them, b1 leading."""
    with Cluster.up(tmp_path_factory.mktemp("nodes"), tethered=True) as cluster:
        create_topic(cluster, "orders", [[1, 2, 3]])
        yield cluster


@pytest.fixture(autouse=True)
def whole(cluster: Cluster) -> Iterator[None]:
    """Every broker runs again after the test."""
    yield
    for node in cluster.brokers:
        if node.paused:
            node.resume()
        elif not node.running:
            node.start()
    cluster.wait_ready()


def test_four_nodes_are_small(cluster: Cluster) -> None:
    produce(cluster, "orders", 0, 1000)
    sizes = {node.id: node.resident_bytes for node in cluster.nodes}
    assert all(0 < size < MOST_RESIDENT_BYTES for size in sizes.values()), sizes


def test_a_paused_broker_hangs_and_goes_on(cluster: Cluster) -> None:
    node = cluster.broker(2)
    node.pause()
    assert node.running
    assert node.paused
    with pytest.raises(Unreachable):
        Conversation(node.address(Listener.LAB), 0.5)
    cluster.wait_fenced(2)
    node.resume()
    cluster.wait_unfenced(2)
    assert not node.paused


def test_replaced_disks_are_empty(cluster: Cluster) -> None:
    node = cluster.broker(3)
    with pytest.raises(LabError, match="runs: kill or stop it"):
        node.replace_disks()
    node.kill()
    assert node.partition_folder("orders", 0)
    node.replace_disks()
    assert node.partition_folder("orders", 0) is None
    node.start()
    cluster.wait_ready()
    cluster.wait_partition("orders", 0, lambda state: 3 in state.isr, "b3 in sync")


def test_settings_of_one_node_hold_from_its_next_start(cluster: Cluster) -> None:
    cluster.configure(3, {"log.retention.ms": "123456"})
    assert Cluster.load(cluster.state_dir).layout.node(3).overrides
    cluster.broker(3).kill()
    cluster.broker(3).start()
    cluster.wait_ready()
    assert "log.retention.ms = 123456" in cluster.broker(3).log_file.read_text()


def test_a_node_that_runs_is_not_started_twice(cluster: Cluster) -> None:
    with pytest.raises(LabError, match="runs already"):
        cluster.broker(1).start()


def test_a_second_lab_in_the_same_folder_is_refused(cluster: Cluster) -> None:
    with pytest.raises(LabError, match="A lab runs in"):
        Cluster.plan(cluster.state_dir)
    assert all(node.running for node in cluster.nodes)
