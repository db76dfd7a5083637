"""One broker for the tests of checkpoints; every test has topics of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import Power, ReadAccess
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.taking import Taking

GUARANTEES = [
    Guarantee.EXACTLY_ONCE,
    pytest.param(Guarantee.AT_LEAST_ONCE, marks=pytest.mark.slow),
]
"""Both, of which the main job has the one that is harder to keep."""


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Nobody may damage it. Groups begin at once."""
    pace = {"group.initial.rebalance.delay.ms": "0"}
    folder = tmp_path_factory.mktemp("checkpoint")
    with Cluster.up(folder, brokers=1, overrides=pace, tethered=True) as cluster:
        yield cluster


@pytest.fixture
def access(broker: Cluster) -> ReadAccess:
    options = ConnectionOptions(bootstrap_server=broker.bootstrap_servers)
    return ReadAccess(connection_settings(options))


@pytest.fixture
def power(access: ReadAccess) -> Power:
    return Power(access)


@pytest.fixture
def client(access: ReadAccess) -> Iterator[ReadClient]:
    with access.reading() as found:
        yield found


@pytest.fixture(params=GUARANTEES)
def guarantee(request: pytest.FixtureRequest) -> Guarantee:
    found: Guarantee = request.param
    return found


@pytest.fixture
def bank(broker: Cluster, guarantee: Guarantee) -> Branch:
    """A bank with six accounts, once with each guarantee."""
    name = f"bank-{uuid.uuid4().hex[:8]}"
    return Branch(broker, name, guarantee, control=f"control-{name}").open()


@pytest.fixture
def program(broker: Cluster, tmp_path: Path, user_folders: Path) -> Program:
    """The commands, on the machine on which this process works, too."""
    return Program(broker.bootstrap_servers, tmp_path / "store", user_folders / "state")


@pytest.fixture
def store(program: Program) -> BackupStore:
    return BackupStore(str(program.store))


@pytest.fixture
def taking(client: ReadClient, power: Power, store: BackupStore) -> Iterator[Taking]:
    """Takes checkpoints in this process; logs are too small for Spark to be started."""
    with Spark() as spark:
        yield Taking(client, power, store, spark)


class OfBank(Protocol):
    """The options that say what a checkpoint is of: the bank's topic and group."""

    def __call__(self, *more: str, topic: str = "", serving: bool = False) -> tuple[str, ...]: ...


@pytest.fixture
def of_bank(bank: Branch) -> OfBank:
    def options(*more: str, topic: str = "", serving: bool = False) -> tuple[str, ...]:
        group = f"{bank.group}={bank.guarantee}"
        scope = ("--topics", topic or bank.topic, "--group", group, "--control-topic", bank.control)
        consent = () if serving else ("--consent", f"write {bank.partitions} markers")
        return (*scope, "--write", *consent, *more)

    return options
