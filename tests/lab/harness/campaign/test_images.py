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


def test_each_copy_registers_as_an_incarnation_of_its_own(copied_brokers: Cluster) -> None:
    first, second = copied_brokers.brokers
    first.kill()
    copied_brokers.wait_fenced(first.id)
    first.start()
    copied_brokers.wait_unfenced(first.id)
    found = [*incarnations(first), *incarnations(second)]
    assert len(found) == 3
    assert len(set(found)) == 3


def test_a_copy_that_is_killed_is_gone_and_one_that_is_paused_does_not_answer(
    copied_brokers: Cluster,
) -> None:
    create_topic(copied_brokers, "copied", [[1, 2]])
    leader, follower = copied_brokers.brokers
    leader.pause()
    copied_brokers.wait_partition(
        "copied",
        0,
        lambda state: state.leader == follower.id,
        "the follower of a paused broker to lead",
        via=follower.id,
    )
    leader.resume()
    copied_brokers.wait_unfenced(leader.id)
    follower.kill()
    assert not follower.running
    copied_brokers.wait_partition(
        "copied",
        0,
        lambda state: state.leader == leader.id,
        "the other replica of a killed broker to lead",
        via=leader.id,
    )
