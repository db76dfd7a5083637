"""A partition of a few batches, and whoever reads it."""

from collections.abc import Iterator

import pytest
from kafka.protocol.consumer import FetchRequest

from breakglass.services.kafka.read_client import ReadClient
from tests.kit.fake_cluster import FakeCluster
from tests.unit.pipeline.batches.fake_log import ORDERS, TENS, FakeLog, led_by


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """One broker, which leads the partition."""
    with FakeCluster(1) as made:
        made.story.states[ORDERS] = led_by(1)
        yield made


@pytest.fixture
def log(cluster: FakeCluster) -> FakeLog:
    """What every broker has of the partition."""
    made = FakeLog(*TENS)
    for broker in cluster.brokers.values():
        broker.serve(FetchRequest, made.answer)
    return made


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[ReadClient]:
    made = cluster.client()
    yield made
    made.close()
