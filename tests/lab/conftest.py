"""Real clusters for tests: one that stays whole, and fresh ones to damage."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, Unpack

import pytest

from breakglass.services.lab.cluster import Cluster, LabOptions
from tests.kit.clusters import s3, s3_clients, spark, whole_broker
from tests.kit.faults import disk, followed_lab, shared_followed_lab

__all__ = [
    "disk",
    "followed_lab",
    "s3",
    "s3_clients",
    "shared_followed_lab",
    "spark",
    "whole_broker",
]


@pytest.fixture
def topic() -> str:
    """The name for a topic of this test's own."""
    return f"topic-{uuid.uuid4().hex[:8]}"


class FreshCluster(Protocol):
    """Starts a cluster for one test; takes what `Cluster.up` takes, but for the folder."""

    def __call__(self, **options: Unpack[LabOptions]) -> Cluster: ...


@pytest.fixture(scope="session")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three whole brokers of the newest Kafka: nobody may damage them, topics are shared."""
    with Cluster.up(tmp_path_factory.mktemp("three-brokers"), tethered=True) as cluster:
        yield cluster


@pytest.fixture
def fresh_cluster(tmp_path: Path) -> Iterator[FreshCluster]:
    """Makes clusters that the test may damage; they end with it."""
    made: list[Cluster] = []

    def make(**options: Unpack[LabOptions]) -> Cluster:
        options.setdefault("tethered", True)
        cluster = Cluster.plan(tmp_path / f"lab-{len(made)}", **options)
        made.append(cluster)
        cluster.start()
        return cluster

    yield make
    for cluster in made:
        cluster.down()
