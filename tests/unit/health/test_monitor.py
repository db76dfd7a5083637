"""The monitor on fake brokers: what it asks, what it keeps, and what it says of the rest."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka.protocol import admin

from breakglass.services.errors import StorageError
from breakglass.services.health.backups import BackupGlance
from breakglass.services.health.brokers import BrokerHealth
from breakglass.services.health.counts import HistoryGap, PartitionCounts
from breakglass.services.health.monitor import Health, Monitor
from breakglass.services.kafka.cluster.log_dirs import NO_SIZES, BrokerLogDir
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.snapshot import ClusterSnapshot
from tests.kit.clock import Clock
from tests.kit.deadlines import HOUR, MOMENT, endless
from tests.kit.fake_cluster import FakeCluster
from tests.kit.waiting import DEADLINE_SECONDS
from tests.unit.health.clusters import QUORUM, SECOND, snapshot, state

ORDERS = TopicPartition("orders", 0)
STORAGE_ERROR, CLUSTER_DENIED = 56, 31
LATER = 5 * SECOND


@pytest.fixture(autouse=True)
def endless_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    endless(monkeypatch)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Three brokers and `orders-0`, led by broker 1 without its followers."""
    with FakeCluster(3) as cluster:
        cluster.story.states[ORDERS] = state(isr=(1,))
        cluster.story.settings["orders"] = {"min.insync.replicas": "2"}
        yield cluster


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[ReadClient]:
    with closing(cluster.client()) as client:
        yield client


@pytest.fixture
def clock() -> Clock:
    """Milliseconds."""
    return Clock(SECOND)


@pytest.fixture
def monitor(clock: Clock) -> Monitor:
    return Monitor(now_ms=lambda: int(clock()))


def read(client: ReadClient) -> ClusterSnapshot:
    return client.snapshot(Deadline.after(HOUR))


def broker(health: Health, number: int) -> BrokerHealth:
    brokers = health.brokers.value
    assert not isinstance(brokers, Unknown)
    return next(health for health in brokers if health.id == number)


def counts(health: Health) -> PartitionCounts:
    assert isinstance(health.counts.value, PartitionCounts)
    return health.counts.value


def log_dirs(*results: tuple[str, int], error: int = 0) -> Any:
    result, sizes = admin.DescribeLogDirsResponse.DescribeLogDirsResult, {"total_bytes": 900}
    told = [
        result(log_dir=path, error_code=code, topics=[], usable_bytes=400, **sizes)
        for path, code in results
    ]
    return admin.DescribeLogDirsResponse(error_code=error, results=told)


def test_a_snapshot_alone_gives_every_figure_but_what_brokers_tell(monitor: Monitor) -> None:
    assert monitor.health == Health()
    one = state(isr=(1,), assignment=(1, 2, 9))
    health = monitor.seen(snapshot(one, fenced=(3,)))
    assert (health.cluster_id, health.quorum.value) == ("cluster-1", QUORUM)
    assert (counts(health).under_replicated, counts(health).unjudged) == (1, 1)
    assert (broker(health, 3).fenced, broker(health, 1).fenced) == (True, False)
    assert isinstance(broker(health, 1).offline_dirs, Unknown)
    assert len(health.history.moments) == 1
    unregistered = broker(health, 9)
    assert (unregistered.registration, unregistered.held.replicas) == (None, 1)
    assert not unregistered.sound


def test_brokers_tell_their_directories_and_topics_their_minimum(
    cluster: FakeCluster, client: ReadClient, monitor: Monitor
) -> None:
    cluster.brokers[2].serve(
        admin.DescribeLogDirsRequest, lambda _: log_dirs(("/b", STORAGE_ERROR), ("/a", 0))
    )
    monitor.seen(read(client))
    health = monitor.ask(client, HOUR)
    assert (counts(health).under_min_isr, counts(health).unjudged) == (1, 0)
    two = broker(health, 2)
    assert two.voice.log_dirs.value == (
        BrokerLogDir("/a", "", 900, 400),
        BrokerLogDir("/b", "KAFKA_STORAGE_ERROR", 900, 400),
    )
    assert (two.offline_dirs, two.sound) == (1, False)
    one = broker(health, 1)
    assert (one.offline_dirs, one.sound) == (0, True)
    assert one.voice.log_dirs.value == (BrokerLogDir("/logs", "", NO_SIZES, NO_SIZES),)


def test_a_hung_broker_holds_up_nobody_longer_than_the_look_may_take(
    cluster: FakeCluster, client: ReadClient, monitor: Monitor
) -> None:
    monitor.seen(read(client))
    monitor.ask(client, HOUR)
    cluster.brokers[3].serve(admin.DescribeLogDirsRequest, lambda _: None)
    health = monitor.ask(client, seconds=MOMENT)
    assert broker(health, 3).voice.silent
    assert broker(health, 1).offline_dirs == 0
    assert counts(health).under_min_isr == 1


def test_figures_not_read_get_older(client: ReadClient, monitor: Monitor, clock: Clock) -> None:
    monitor.seen(read(client))
    clock.advance(LATER - SECOND)
    health = monitor.missed("no broker answers")
    for figure in (health.quorum, health.brokers, health.counts, health.reassignments):
        assert figure.read_at_ms == SECOND
        assert figure.failed == Unknown("no broker answers")
    assert isinstance(health.history.moments[-1], HistoryGap)
    assert counts(health).partitions == 1
    health = monitor.ask(client, HOUR)
    assert (health.counts.read_at_ms, health.counts.failed is None) == (SECOND, False)
    assert broker(health, 1).voice.log_dirs.read_at_ms == LATER


def test_nobody_is_asked_twice(cluster: FakeCluster, client: ReadClient, monitor: Monitor) -> None:
    asked, answer = threading.Event(), threading.Event()

    def wait(_: Any) -> Any:
        asked.set()
        answer.wait(DEADLINE_SECONDS)
        return log_dirs(("/a", 0))

    cluster.brokers[1].serve(admin.DescribeLogDirsRequest, wait)
    monitor.seen(read(client))
    first = threading.Thread(target=monitor.ask, args=(client, HOUR))
    first.start()
    try:
        assert asked.wait(DEADLINE_SECONDS)
        assert broker(monitor.ask(client, HOUR), 1).voice.asked_at_ms == 0
    finally:
        answer.set()
        first.join(DEADLINE_SECONDS)
    assert broker(monitor.health, 1).voice.asked_at_ms == SECOND


class Backups:
    """A kind of backup that tells, or cannot."""

    name = "topics"
    error = ""

    def glance(self, deadline: Deadline) -> BackupGlance:
        if self.error:
            raise StorageError(self.error)
        return BackupGlance("complete", 4_000)


def test_backups_in_use_tell_of_themselves_and_keep_what_they_told(client: ReadClient) -> None:
    backups = Backups()
    monitor = Monitor([backups], now_ms=lambda: SECOND)
    monitor.seen(read(client))
    assert monitor.ask(client, HOUR).backups["topics"].value == BackupGlance("complete", 4_000)
    backups.error = "the folder is gone: mount it"
    figure = monitor.ask(client, HOUR).backups["topics"]
    assert figure.value == BackupGlance("complete", 4_000)
    assert figure.failed == Unknown("the folder is gone: mount it")
