"""One broker for the tests of the metastore, with Kafka's own pace of retention checks."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from tests.lab.metastore.topics import CommandTopic

DEFAULT_CHECK_MS = "300000"


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Nobody may damage it; topics are each test's own. Nothing expires for five minutes."""
    folder = tmp_path_factory.mktemp("metastore")
    pace = {"log.retention.check.interval.ms": DEFAULT_CHECK_MS}
    with Cluster.up(folder, brokers=1, overrides=pace, tethered=True) as cluster:
        yield cluster


@pytest.fixture
def topic(broker: Cluster) -> CommandTopic:
    """The command topic of a service of this test's own, with ksqlDB's settings."""
    made = CommandTopic(broker, f"test_{uuid.uuid4().hex[:8]}_")
    made.create()
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where this test's backups go."""
    return tmp_path / "backups"
