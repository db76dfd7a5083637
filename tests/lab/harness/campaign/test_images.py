"""Nodes that are copies of a memory image: each is a broker like any other that was started."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.node import Node
from breakglass.services.lab.planning import prepared
from breakglass.services.lab.topics import create_topic
from tests.campaign import images

INCARNATION = re.compile(r"Incarnation (\S+) of broker (\d+)")


pytestmark = pytest.mark.skipif(not images.supported(), reason=images.NEEDS)


@pytest.fixture
def copied_brokers(tmp_path: Path) -> Iterator[Cluster]:
    """Two brokers and a controller, each a copy of one memory image."""
    image = images.made(prepared("4.3.1"), tmp_path / "image")
    with (
        images.nodes_from(image),
        Cluster.up(tmp_path / "lab", brokers=2, controllers=1, kafka_version="4.3.1") as cluster,
    ):
        yield cluster


def incarnations(node: Node) -> list[str]:
    return [found[0] for found in INCARNATION.findall(node.log_file.read_text("utf-8"))]


def test_a_copy_is_a_broker_of_its_own_that_is_paused_and_killed_as_others_are(
    copied_brokers: Cluster,
) -> None:
    cluster = copied_brokers
    create_topic(cluster, "copied", [[1, 2]])
    first, second = cluster.brokers
    first.pause()
    cluster.wait_partition(
        "copied", 0, lambda state: state.leader == second.id, "b2 to lead", via=second.id
    )
    first.resume()
    cluster.wait_unfenced(first.id)
    cluster.wait_partition("copied", 0, lambda state: first.id in state.isr, "b1 in sync")
    second.kill()
    assert not second.running
    cluster.wait_partition(
        "copied", 0, lambda state: state.leader == first.id, "b1 to lead", via=first.id
    )
    second.start()
    cluster.wait_unfenced(second.id)
    found = [*incarnations(first), *incarnations(second)]
    assert len(found) == len(set(found)) == 3
