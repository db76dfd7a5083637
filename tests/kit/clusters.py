"""What tests of backups, checkpoints and ksqlDB share: one whole broker, and one Spark session.

Sessions import these fixtures in tests/lab/conftest.py alone, so that each is made once.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import Power, ReadAccess
from tests.kit.s3_server import S3, client_files, s3_server, write_client_files

P = ParamSpec("P")
R = TypeVar("R")

SETTINGS = {
    # Kafka's own pace: nothing expires for five minutes.
    "log.retention.check.interval.ms": "300000",
    "log.cleaner.backoff.ms": "100",
}
NICENESS = 3
"""Spark gives way to brokers, which have heartbeats to send."""


def in_main_job(test: Callable[P, R]) -> Callable[P, R]:
    """Have `make test` run *test*, in the one worker that has the whole broker."""
    return pytest.mark.main(pytest.mark.xdist_group("whole broker")(test))


def access_to(cluster: Cluster) -> ReadAccess:
    """What reads *cluster*, which asks for nothing."""
    return ReadAccess(
        connection_settings(ConnectionOptions(bootstrap_server=cluster.bootstrap_servers), {})
    )


@pytest.fixture(scope="session")
def whole_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker and a controller of the newest Kafka: no test damages them, each has own topics."""
    folder = tmp_path_factory.mktemp("whole-broker")
    with Cluster.up(folder, brokers=1, overrides=SETTINGS, tethered=True) as cluster:
        yield cluster


@pytest.fixture
def access(whole_broker: Cluster) -> ReadAccess:
    return access_to(whole_broker)


@pytest.fixture
def power(access: ReadAccess) -> Power:
    return Power(access)


@pytest.fixture
def client(access: ReadAccess) -> Iterator[ReadClient]:
    """Reads the whole broker."""
    with access.reading() as client:
        yield client


@pytest.fixture(scope="session")
def s3_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where clients of S3 look for their settings, workers of Spark too: none are there yet."""
    folder = tmp_path_factory.mktemp("aws")
    with pytest.MonkeyPatch.context() as patch:
        for name in [text for text in os.environ if text.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in client_files(folder).items():
            patch.setenv(name, value)
        yield folder


@pytest.fixture(scope="session")
def s3(s3_clients: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """One S3 server, and a way to it that a test may make fail."""
    with s3_server(tmp_path_factory.mktemp("s3")) as s3:
        write_client_files(s3_clients, s3)
        yield s3


@pytest.fixture(scope="session")
def spark(s3_clients: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """Spark on this machine, as the commands run it; it starts with the first job."""
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    with Spark(log=log, niceness=NICENESS) as spark:
        yield spark
