"""A partition has its leader, whatever a broker says that is cut off from its controllers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services import patience
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.cluster.partitions import newest
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.controller_link import ControllerLink
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.restore.tail_plan import led_targets
from breakglass.services.session import Power, ReadAccess
from breakglass.services.snapshot import Quorum
from tests.kit.waiting import wait_until

TOPIC, LEADER, CUT = "orders", 1, 2
PARTITION = TopicPartition(TOPIC, 0)
SECONDS = 600.0
AT_ONCE = 20.0
"""A broker that is cut off asks its controllers for longer."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """b1 has the only replica of the topic, and b2 can be cut off from the controller."""
    with Cluster.plan(tmp_path / "lab", brokers=2, tethered=True) as lab:
        ControllerLink(lab, CUT).plan()
        lab.start()
        create_topic(lab, TOPIC, [(LEADER,)])
        yield lab


@pytest.fixture
def access(cluster: Cluster) -> ReadAccess:
    """b2 answers first."""
    address = str(cluster.broker(CUT).address(Listener.CLIENT))
    return ReadAccess(connection_settings(ConnectionOptions(bootstrap_server=address), {}))


@pytest.fixture
def asking_the_cut_broker(access: ReadAccess) -> Iterator[ReadClient]:
    with access.reading() as client:
        yield client


def test_r20_the_newest_leader_counts_and_a_restore_waits_for_it(
    cluster: Cluster, asking_the_cut_broker: ReadClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is asked of every broker waits longer than an operator would: machines may be busy.
    for kind in ("LOOK", "ROLL_CALL"):
        monkeypatch.setattr(patience, kind, SECONDS / 8)
    client = asking_the_cut_broker
    # A broker may register again only once it is fenced: then its partition is offline.
    cluster.broker(LEADER).kill()
    offline = cluster.wait_partition(
        TOPIC, 0, lambda state: state.offline, "no leader", via=CUT, timeout=SECONDS
    )
    ControllerLink(cluster, CUT).cut()
    with ThreadPoolExecutor(1) as restore:
        waiting = restore.submit(
            led_targets, client, [TOPIC], [PARTITION], Deadline.after(SECONDS), SECONDS
        )
        cluster.broker(LEADER).start()
        led = cluster.wait_partition(
            TOPIC, 0, lambda state: not state.offline, "a leader", via=LEADER, timeout=SECONDS
        )
        (partition,) = waiting.result(timeout=SECONDS)[TOPIC].partitions
    assert (partition.partition, partition.leader) == (PARTITION, LEADER)

    (old,) = client.partitions((TOPIC,), Deadline.after(SECONDS))
    assert (old.offline, old.leader_epoch) == (True, offline.leader_epoch)
    assert led.leader_epoch > old.leader_epoch
    assert newest(old, [led, replace(led, leader_epoch=0)]) == led

    # A busy machine may fence b1 for a moment.
    wait_until(lambda: leaders(client) == [LEADER], "the newest leader", SECONDS)
    wait_until(lambda: seen(client) == (True, [LEADER]), "another broker to be asked", SECONDS)


def test_r20_a_change_is_sent_to_a_broker_that_can_pass_it_on(
    cluster: Cluster, access: ReadAccess, asking_the_cut_broker: ReadClient
) -> None:
    deadline = Deadline.after(SECONDS)
    cluster_id = asking_the_cut_broker.describe(deadline).cluster_id
    ControllerLink(cluster, CUT).cut()
    cluster.wait_fenced(CUT)
    with Power(access).topics(cluster_id) as topics:
        topics.configure(TOPIC, {"retention.ms": "86400000"}, (), Deadline.after(AT_ONCE))


def leaders(client: ReadClient) -> list[int | None]:
    """Who leads the topic's partitions, by the broker that knows most."""
    states = client.newest_partitions((TOPIC,), Deadline.after(SECONDS))
    return [state.leader for state in states]


def seen(client: ReadClient) -> tuple[bool, list[int | None]]:
    """Whether a snapshot has the quorum, and who leads the topic's partitions in it."""
    snapshot = client.snapshot(Deadline.after(SECONDS), (TOPIC,))
    leading = [state.leader for state in snapshot.partitions]
    return isinstance(snapshot.quorum, Quorum), leading
