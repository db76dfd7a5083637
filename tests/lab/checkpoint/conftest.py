"""Banks, chains and plain topics on the whole broker, and what takes checkpoints of them."""

from pathlib import Path

import pytest

from breakglass.services.checkpoint.participant.participant import Guarantee
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import ReadAccess
from tests.kit.clusters import access, client, power
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.plain import write
from tests.lab.checkpoint.taking import Taking

__all__ = ["access", "client", "power"]


@pytest.fixture(params=list(Guarantee))
def bank(request: pytest.FixtureRequest, whole_broker: Cluster, topic: str) -> Branch:
    """A bank with six accounts, once with each guarantee."""
    return Branch(whole_broker, topic, request.param, control=f"control-{topic}").open()


@pytest.fixture
def small_bank(whole_broker: Cluster, topic: str) -> Branch:
    """Three accounts that process exactly once, and nobody at work."""
    control = f"control-{topic}"
    return Branch(whole_broker, topic, Guarantee.EXACTLY_ONCE, 3, control).open()


@pytest.fixture
def settled_bank(small_bank: Branch) -> Branch:
    """Three accounts with nothing under way and nobody at work."""
    small_bank.order(20, hops=3)
    small_bank.settle()
    return small_bank


@pytest.fixture
def program(whole_broker: Cluster, tmp_path: Path, user_folders: Path) -> Program:
    """The commands, on the machine on which this process works, too."""
    return Program(whole_broker.bootstrap_servers, tmp_path / "store", user_folders / "state")


@pytest.fixture
def store(program: Program) -> BackupStore:
    return BackupStore(str(program.store))


@pytest.fixture
def taking(
    access: ReadAccess,
    client: ReadClient,
    store: BackupStore,
    spark: Spark,
    topic: str,
    tmp_path: Path,
) -> Taking:
    """Takes checkpoints in this process; logs are too small for Spark to be started."""
    return Taking(access, client, store, spark, tmp_path / "state", f"control-{topic}")


@pytest.fixture
def plain(whole_broker: Cluster, topic: str) -> Branch:
    """A topic of two partitions with three records each, which say nothing of what led to them."""
    create_topic(whole_broker, topic, [[1], [1]])
    found = Branch.plain(whole_broker, topic)
    write(found, 6)
    return found
