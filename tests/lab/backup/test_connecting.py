"""Tasks of a backup connect with what every other command connects with."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pytest
from kafka.protocol.consumer import FetchRequest

from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.errors import Unreachable
from breakglass.services.kafka.wire.api_keys import FETCH
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Address, Listener
from breakglass.services.lab.produce import produce
from breakglass.services.lab.proxy import Proxy
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import Unknown
from breakglass.services.pipeline.session import Spark
from breakglass.services.session import ReadAccess
from tests.kit.hidden import CLIENT_SECRET, HiddenCluster, hidden_cluster
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.backup.backups import BackUp, backing_up
from tests.lab.backup.independent import stored
from tests.lab.backup.producing import make
from tests.lab.backup.restores import Restore
from tests.lab.checkpoint.taking import Taking
from tests.lab.connection.test_secure_connection import LOGINS, Secured, one_secured
from tests.unit.connection.stores import Stores, pem_files, pem_inline, pkcs12, pkcs12_legacy

TOPIC = "connecting"
RECORDS = 20
NOWHERE = Address("127.0.0.1", 1)
"""Nobody listens there."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One broker whose clients need a certificate and a login, with the topic."""
    with one_secured(tmp_path_factory) as made:
        make(made.cluster, TOPIC)
        produce(made.cluster, TOPIC, 0, RECORDS)
        yield made


BackedUp = Callable[[ConnectionSettings], int]


@pytest.fixture
def backed_up(spark: Spark, tmp_path: Path) -> BackedUp:
    """Backs up the topic with these settings, as the command does: how much is stored then."""

    def back_up(settings: ConnectionSettings) -> int:
        with backing_up(ReadAccess(settings), spark, tmp_path / "backup") as made:
            made.topic(TOPIC)
        return len(stored(tmp_path / "backup" / TOPIC, 0))

    return back_up


def log_end(settings: ConnectionSettings) -> int | Unknown:
    """What the recovery side learns of the topic's only replica."""
    deadline = Deadline.after(DEADLINE_SECONDS)
    with ReadAccess(settings).reading() as client:
        client.describe(deadline)
        (state,) = client.partitions((TOPIC,), deadline)
        read = client.replicas_on(1).read({state.partition: state.topic_id}, deadline)
        return read[state.partition].log_end


@pytest.mark.parametrize(
    ("mechanism", "stores"),
    list(zip(LOGINS, cycle([pkcs12, pkcs12_legacy, pem_files, pem_inline]), strict=False)),
    ids=list(LOGINS),
)
def test_a_backup_connects_with_each_login(
    secured: Secured, backed_up: BackedUp, tmp_path: Path, mechanism: str, stores: Stores
) -> None:
    files = stores(tmp_path, secured.root, secured.operator)
    settings = secured.settings(tmp_path, mechanism, files)
    assert log_end(settings) == RECORDS
    assert backed_up(settings) == RECORDS


def test_a_password_that_is_wrong_for_tasks_is_told_at_once(
    secured: Secured, spark: Spark, tmp_path: Path
) -> None:
    """As where the password was changed between the plan and the copy."""
    files = pkcs12(tmp_path, secured.root, secured.operator)
    right = secured.settings(tmp_path, "PLAIN", files)
    wrong = secured.settings(tmp_path, "PLAIN", files, password="wrong-sentinel")
    with ReadAccess(right).reading() as client:
        back_up = BackUp(client, spark, ReadAccess(wrong), tmp_path / "backup")
        (topic,) = back_up(TOPIC).topics
    assert "check sasl.jaas.config" in topic.error
    assert "wrong-sentinel" not in topic.error


def test_tasks_reach_brokers_by_the_listener_that_is_named(
    backed_up: BackedUp, tmp_path: Path
) -> None:
    """That for clients leads through a relay, which no task is to pass."""
    cluster = Cluster.plan(tmp_path / "lab", brokers=1, tethered=True)
    with Proxy(cluster.node(1).address(Listener.CLIENT)) as relay, cluster:
        cluster.advertise(1, relay.address)
        cluster.start()
        make(cluster, TOPIC)
        produce(cluster, TOPIC, 0, RECORDS)
        options = ConnectionOptions(cluster.bootstrap_servers, listener=Listener.LAB.value)
        assert backed_up(connection_settings(options, {})) == RECORDS
        fetches = [
            request.decode(FetchRequest) for request in relay.seen if request.api_key == FETCH
        ]
        topics = [topic for fetch in fetches for topic in fetch.topics]
        places = {partition.fetch_offset for topic in topics for partition in topic.partitions}
        assert 0 not in places, "epochs are asked for past every log, by the run itself"


@pytest.fixture
def relay(secured: Secured) -> Iterator[Proxy]:
    """Leads to the broker, whose own address leads nowhere, as behind a tunnel."""
    node = secured.cluster.node(1)
    own = node.address(Listener.CLIENT)
    with Proxy(own, opaque=True) as made:
        advertise(secured.cluster, NOWHERE)
        yield made
    advertise(secured.cluster, own)


def advertise(cluster: Cluster, address: Address) -> None:
    cluster.node(1).stop()
    cluster.advertise(1, address)
    cluster.node(1).start()
    cluster.wait_unfenced(1)


def test_a_backup_through_a_relay_reaches_a_broker_whose_own_address_leads_nowhere(
    secured: Secured, relay: Proxy, backed_up: BackedUp, tmp_path: Path
) -> None:
    files = pem_files(tmp_path, secured.root, secured.operator)
    known = secured.settings(tmp_path, "SCRAM-SHA-512", files)
    servers = (Endpoint(*relay.address),)
    unnamed = replace(known, bootstrap_servers=servers)
    named = replace(unnamed, broker_addresses={1: servers[0]})
    with pytest.raises(Unreachable):
        log_end(unnamed)
    assert log_end(named) == RECORDS
    assert backed_up(named) == RECORDS


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiddenCluster]:
    with hidden_cluster(tmp_path_factory.mktemp("hidden")) as made:
        yield made


def filled(hidden: HiddenCluster, topic: str) -> None:
    """Create *topic* with a partition on each broker, and a record for each of 20 numbers."""
    create_topic(hidden.cluster, topic, [[1], [2]])
    for partition in (0, 1):
        produce(hidden.cluster, topic, partition, 20)


def secrets_in(folder: Path) -> list[Path]:
    """The files below *folder* that contain the client secret."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if CLIENT_SECRET.encode() in path.read_bytes()]


def test_a_topic_is_backed_up_and_restored(
    hidden: HiddenCluster, spark: Spark, topic: str, tmp_path: Path
) -> None:
    filled(hidden, topic)
    with backing_up(hidden.access, spark, tmp_path / "backup") as back_up:
        assert sum(partition.records for partition in back_up.topic(topic).partitions) == 40
        done = Restore(back_up, tmp_path / "state").topic(topic, f"{topic}-back")
    assert done.records == 40
    assert secrets_in(tmp_path) == []


def test_a_checkpoint_is_taken_and_restored(
    hidden: HiddenCluster, spark: Spark, topic: str, tmp_path: Path
) -> None:
    filled(hidden, topic)
    access = hidden.access
    with access.reading() as client:
        store = BackupStore(str(tmp_path / "store"))
        taking = Taking(access, client, store, spark, tmp_path / "state", f"control-{topic}")
        taking.restored(taking.taken(topic), {topic: f"{topic}-back"})
    assert secrets_in(tmp_path) == []
