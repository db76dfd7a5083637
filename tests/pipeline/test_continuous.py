"""A backup without an end: new records, topics and partitions while it runs."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings
from breakglass.services.pipeline.continuous import Followed, follow
from breakglass.services.pipeline.report import BackupReport
from breakglass.services.pipeline.source import WantedTopics
from breakglass.services.topic_backup.consumer_offsets import read
from breakglass.services.topic_backup.store.store import LocalStore
from tests.pipeline.backups import BackUp, unheard
from tests.pipeline.producing import LOG, SECONDS, committed_bytes, make, numbered, produce
from tests.pipeline.test_restore import commit


def followed(back_up: BackUp, pattern: str, *between: Callable[[], None]) -> Followed:
    """Follow topics; each of *between* is done after a run, and one more run ends it."""
    waiting = list(between)
    over: list[bool] = []

    def told(_: BackupReport) -> None:
        if waiting:
            waiting.pop(0)()
        else:
            over.append(True)

    settings = BackupSettings(LocalStore(back_up.root))
    client, spark, access = back_up.client, back_up.spark, back_up.access
    return follow(
        lambda meter: BackupRun(client, spark, access, settings, meter),
        WantedTopics(pattern=pattern),
        unheard,
        lambda: bool(over),
        every=0.1,
        told=told,
    )


def test_b10_new_topics_and_partitions_are_taken_up(
    broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(broker, topic)
    produce(broker, topic, numbered(3))

    def new_topic() -> None:
        make(broker, f"{topic}-new")
        produce(broker, f"{topic}-new", numbered(4))

    def new_partition() -> None:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers}, logger=LOG)
        client.create_partitions([NewPartitions(topic, 2)])[topic].result(SECONDS)
        broker.wait_until(lambda: len(broker.partitions(topic)) == 2, "the new partition")
        produce(broker, topic, numbered(5), partition=1)

    done = followed(back_up, f"{topic}.*", new_topic, new_partition)
    assert (done.runs, done.records, done.partitions, done.failures) == (3, 12, 3, [])
    for name, partition in ((topic, 0), (topic, 1), (f"{topic}-new", 0)):
        assert back_up.bytes(name, partition) == committed_bytes(broker, name, partition)


def test_groups_are_saved_without_new_records_and_frequent_runs_leave_one_segment(
    broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(broker, topic)

    def more() -> None:
        produce(broker, topic, numbered(3))

    def group_moves() -> None:
        commit(broker, topic, f"{topic}-group", 5)

    done = followed(back_up, topic, more, more, group_moves)
    assert done.records == 6
    assert len(back_up.manifest(topic).partitions[0].segments) == 1
    assert read(back_up.folder(topic), 0) == {f"{topic}-group": 5}
    assert back_up.bytes(topic) == committed_bytes(broker, topic)
