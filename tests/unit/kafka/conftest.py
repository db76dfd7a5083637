"""Healthy fake brokers are waited for; a test shortens the one limit that it is about."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.sender import Sender
from tests.kit.deadlines import be_patient
from tests.kit.fake_cluster import FakeCluster


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as cluster:
        yield cluster


@pytest.fixture
def sender(cluster: FakeCluster) -> Iterator[Sender]:
    """May read."""
    with closing(cluster.sender()) as sender:
        yield sender


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[ReadClient]:
    with closing(cluster.client()) as client:
        yield client


@pytest.fixture
def dead() -> Endpoint:
    """Where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Endpoint(*listener.getsockname()[:2])


@pytest.fixture
def hung() -> Iterator[Endpoint]:
    """As a stopped process: the system connects, and no answer ever comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Endpoint(*listener.getsockname()[:2])
