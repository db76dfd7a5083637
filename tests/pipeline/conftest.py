"""One Spark session and one broker for all tests of the pipeline: either takes seconds to start."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import Power, ReadAccess
from tests.pipeline.backups import BackUp
from tests.pipeline.checkpoint_restores import Checkpoints
from tests.pipeline.restores import Restore
from tests.pipeline.s3_server import S3, client_files, s3_server, write_client_files


@pytest.fixture(scope="session", autouse=True)
def courtesy() -> None:
    """Spark gives way to the brokers of the other worker, which have heartbeats to send."""
    os.nice(3)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One whole broker: nobody may damage it, topics are each test's own."""
    folder = tmp_path_factory.mktemp("pipeline")
    quick = {"log.cleaner.backoff.ms": "100"}
    with Cluster.up(folder, brokers=1, overrides=quick, tethered=True) as cluster:
        yield cluster


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
    """Spark on this machine, as the commands run it."""
    with Spark(log=tmp_path_factory.mktemp("spark") / "spark.log") as spark:
        yield spark


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is out of time breaks off a question to the JVM that all others ask, too.

    Its traceback keeps that connection: the next test would take the answer for one of its own.
    """
    from pyspark import SparkContext

    report = yield
    if report.failed and (gateway := SparkContext._gateway) is not None:
        asking = gateway._gateway_client.get_thread_connection()
        if asking is not None:
            asking.close()
    return report


@pytest.fixture
def client(broker: Cluster) -> Iterator[ReadClient]:
    """Reads the broker."""
    options = ConnectionOptions(bootstrap_server=broker.bootstrap_servers)
    with ReadAccess(connection_settings(options, {})).reading() as client:
        yield client


@pytest.fixture
def back_up(client: ReadClient, spark: Spark, broker: Cluster, tmp_path: Path) -> BackUp:
    """Backs up into a folder of this test's own."""
    return BackUp(client, spark, broker.bootstrap_servers, tmp_path / "backup")


@pytest.fixture
def topic() -> str:
    """The name for a topic of this test's own."""
    return f"topic-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def checkpoints(
    broker: Cluster, client: ReadClient, spark: Spark, topic: str, tmp_path: Path
) -> Checkpoints:
    """Takes checkpoints into a store of this test's own, and restores them."""
    options = ConnectionOptions(bootstrap_server=broker.bootstrap_servers)
    power = Power(ReadAccess(connection_settings(options, {})))
    return Checkpoints(broker, client, spark, power, tmp_path, f"control-{topic}")


@pytest.fixture
def restore(broker: Cluster, back_up: BackUp, tmp_path: Path) -> Restore:
    """Restores from the backup of this test."""
    options = ConnectionOptions(bootstrap_server=broker.bootstrap_servers)
    power = Power(ReadAccess(connection_settings(options, {})))
    return Restore(broker, back_up, power, tmp_path / "restores")
