"""What backs up and restores topics of the whole broker."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import ReadAccess
from tests.kit.clusters import access, client, power
from tests.lab.backup.backups import BackUp
from tests.lab.backup.restores import Restore
from tests.lab.checkpoint.taking import Taking

__all__ = ["access", "client", "power"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is out of time breaks off a question to the JVM that all others ask, too.

    Its traceback keeps that connection: the next test would take the answer for one of its own.
    """
    report = yield
    if report.failed and "pyspark" in sys.modules:
        from pyspark import SparkContext

        gateway = SparkContext._gateway
        asking = None if gateway is None else gateway._gateway_client.get_thread_connection()
        if asking is not None:
            asking.close()
    return report


@pytest.fixture
def back_up(client: ReadClient, spark: Spark, access: ReadAccess, tmp_path: Path) -> BackUp:
    """Backs up into a folder of this test's own."""
    return BackUp(client, spark, access, tmp_path / "backup")


@pytest.fixture
def restore(back_up: BackUp, tmp_path: Path) -> Restore:
    """Restores from the backup of this test."""
    return Restore(back_up, tmp_path / "restores")


@pytest.fixture
def taking(
    access: ReadAccess, client: ReadClient, spark: Spark, topic: str, tmp_path: Path
) -> Taking:
    """Takes checkpoints into a store of this test's own, and restores them."""
    store = BackupStore(str(tmp_path / "store"))
    return Taking(access, client, store, spark, tmp_path / "state", f"control-{topic}")
