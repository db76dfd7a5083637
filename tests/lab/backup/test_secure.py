"""Backing up and restoring through TLS and SASL, and what a user lacks who may do less."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import produce
from breakglass.services.lab.properties import OPERATOR, SUPER_USER
from breakglass.services.pipeline.restore.restore import TopicRestored
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import ReadAccess
from tests.kit.access import Acl, Operation, Resource, grant
from tests.kit.client_properties import write_client_properties
from tests.lab.backup.backups import backing_up
from tests.lab.backup.producing import make
from tests.lab.backup.restores import Restore


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker with TLS and SASL, where only the super user may do anything without ACLs."""
    folder = tmp_path_factory.mktemp("secured")
    with Cluster.up(folder, brokers=1, secured=True, tethered=True) as cluster:
        yield cluster


@contextmanager
def as_user(name: str, cluster: Cluster, spark: Spark, folder: Path) -> Iterator[Restore]:
    """Backs up and restores as somebody, by one file of client properties."""
    file = write_client_properties(cluster.layout, name)
    options = ConnectionOptions(cluster.bootstrap_servers, command_config=str(file))
    access = ReadAccess(connection_settings(options, {}))
    with backing_up(access, spark, folder) as back_up:
        yield Restore(back_up, folder / "state")


def allowing(operation: Operation, resource: Resource) -> Acl:
    return Acl(OPERATOR, operation, resource, "*")


def test_a_restore_that_is_not_allowed_says_what_it_lacks_and_goes_on_with_it(
    secured: Cluster, spark: Spark, topic: str, tmp_path: Path
) -> None:
    make(secured, topic)
    produce(secured, topic, 0, 20)
    with as_user(SUPER_USER, secured, spark, tmp_path) as whole:
        whole.back_up.topic(topic)
    target = f"{topic}-back"

    def restored(*, resume: bool = False) -> TopicRestored:
        with as_user(OPERATOR, secured, spark, tmp_path) as operator:
            return operator(operator.plan(topic, target, resume=resume))

    reading = (Operation.READ, Operation.DESCRIBE_CONFIGS)
    grant(secured, *(allowing(operation, Resource.TOPIC) for operation in reading))
    assert "grant CREATE on topic" in restored().error
    making = (Operation.CREATE, Operation.ALTER_CONFIGS)
    grant(secured, *(allowing(operation, Resource.TOPIC) for operation in making))
    steps = [
        (allowing(Operation.WRITE, Resource.TRANSACTIONAL_ID), "WRITE on transactional ids"),
        (allowing(Operation.READ, Resource.GROUP), "READ on groups"),
        (allowing(Operation.WRITE, Resource.TOPIC), "grant WRITE on it"),
    ]
    for number, (acl, lacking) in enumerate(steps):
        done = restored(resume=number > 0)
        assert lacking in done.error
        assert done.records == 0
        grant(secured, acl)
    done = restored(resume=True)
    assert (done.error, done.verified, done.records) == ("", True, 20)
