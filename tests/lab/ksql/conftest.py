"""Command topics of ksqlDB on the whole broker."""

import uuid
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from tests.lab.ksql.topics import CommandTopic


@pytest.fixture
def topic(whole_broker: Cluster) -> CommandTopic:
    """The command topic of a service of this test's own, with ksqlDB's settings."""
    made = CommandTopic(whole_broker, f"test_{uuid.uuid4().hex[:8]}_")
    made.create()
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where this test's backups go."""
    return tmp_path / "backups"
