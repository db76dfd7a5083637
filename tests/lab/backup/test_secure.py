"""Backing up and restoring through TLS and SASL, and what a user lacks who may do less."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.guard.journal import Journal
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import produce
from breakglass.services.lab.security import (
    OPERATOR,
    SUPER_USER,
)
from breakglass.services.pipeline.backup import back_up
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
from breakglass.services.pipeline.report import BackupReport
from breakglass.services.pipeline.restore.options import RestoreOptions
from breakglass.services.pipeline.restore.plan import make_plan
from breakglass.services.pipeline.restore.restore import RestoreRun, TopicRestored, restore
from breakglass.services.pipeline.session import Spark
from breakglass.services.pipeline.source import WantedTopics
from breakglass.services.session import Power, ReadAccess
from breakglass.services.topic_backup.catalog import held_topics
from breakglass.services.topic_backup.store.store import LocalStore
from tests.kit.access import Acl, Operation, Resource, grant
from tests.kit.client_properties import write_client_properties
from tests.lab.backup.backups import unheard
from tests.lab.backup.producing import make


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker with TLS and SASL, where only the super user may do anything without ACLs."""
    folder = tmp_path_factory.mktemp("secured")
    with Cluster.up(folder, brokers=1, secured=True, tethered=True) as cluster:
        yield cluster


@dataclass(frozen=True, slots=True)
class User:
    """Backs up and restores as somebody, by one file of client properties."""

    settings: ConnectionSettings
    spark: Spark
    folder: Path

    @classmethod
    def named(cls, name: str, cluster: Cluster, spark: Spark, folder: Path) -> User:
        file = write_client_properties(cluster.layout, name)
        options = ConnectionOptions(cluster.bootstrap_servers, command_config=str(file))
        return cls(connection_settings(options, {}), spark, folder)

    def back_up(self, topic: str) -> BackupReport:
        access = ReadAccess(self.settings)
        with access.reading() as client:
            settings = BackupSettings(LocalStore(self.folder))
            run = BackupRun(client, self.spark, access, settings, Meter(unheard))
            return back_up(run, WantedTopics((topic,)))

    def restore(self, topic: str, target: str, *, resume: bool = False) -> TopicRestored:
        access, store = ReadAccess(self.settings), LocalStore(self.folder)
        with access.reading() as client:
            options = RestoreOptions(renamed={topic: target}, resume=resume)
            plan = make_plan(client, held_topics(store, [topic]), options, self.folder / "state")
            run = BackupRun(client, self.spark, access, BackupSettings(store), Meter(unheard))
            with (
                Journal.open(plan.cluster_id, self.folder / "state") as journal,
                Power(access).topics(plan.cluster_id) as topics,
            ):
                (done,) = restore(RestoreRun(run, topics, journal, plan.cluster_id), plan)
        return done


def allowing(operation: Operation, resource: Resource) -> Acl:
    return Acl(OPERATOR, operation, resource, "*")


def test_a_restore_that_is_not_allowed_says_what_it_lacks_and_goes_on_with_it(
    secured: Cluster, spark: Spark, topic: str, tmp_path: Path
) -> None:
    make(secured, topic)
    produce(secured, topic, 0, 20)
    User.named(SUPER_USER, secured, spark, tmp_path).back_up(topic)
    operator, target = User.named(OPERATOR, secured, spark, tmp_path), f"{topic}-back"
    reading = (Operation.READ, Operation.DESCRIBE_CONFIGS)
    grant(secured, *(allowing(operation, Resource.TOPIC) for operation in reading))
    assert "grant CREATE on topic" in operator.restore(topic, target).error
    making = (Operation.CREATE, Operation.ALTER_CONFIGS)
    grant(secured, *(allowing(operation, Resource.TOPIC) for operation in making))
    steps = [
        (allowing(Operation.WRITE, Resource.TRANSACTIONAL_ID), "WRITE on transactional ids"),
        (allowing(Operation.READ, Resource.GROUP), "READ on groups"),
        (allowing(Operation.WRITE, Resource.TOPIC), "grant WRITE on it"),
    ]
    for number, (acl, lacking) in enumerate(steps):
        done = operator.restore(topic, target, resume=number > 0)
        assert lacking in done.error
        assert done.records == 0
        grant(secured, acl)
    done = operator.restore(topic, target, resume=True)
    assert (done.error, done.verified, done.records) == ("", True, 20)
