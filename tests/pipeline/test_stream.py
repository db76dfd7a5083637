"""Records that come while a stream backs them up: soon there, exactly once, whatever comes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings
from breakglass.services.pipeline.continuous import Followed, follow
from breakglass.services.pipeline.report import BackupReport
from breakglass.services.pipeline.source import WantedTopics
from breakglass.services.topic_backup.consumer_offsets import read
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.store.store import LocalStore
from tests.kit.waiting import wait_until
from tests.pipeline.backups import BackUp, unheard
from tests.pipeline.independent import delivered, stored
from tests.pipeline.producing import (
    LOG,
    SECONDS,
    committed_bytes,
    make,
    numbered,
    produce,
    producer,
    put,
)
from tests.pipeline.test_restore import commit
from tests.pipeline.test_rules import LONGEST_MS, delete

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SELDOM = 600.0
"""Seconds between two runs: whatever is copied meanwhile, the stream copied, or a new shape."""


@dataclass(slots=True)
class Following:
    """A backup without an end, in a thread of its own."""

    back_up: BackUp
    over: threading.Event = field(default_factory=threading.Event)
    reports: list[BackupReport] = field(default_factory=list)
    then: Callable[[], None] | None = None
    """Done once, after the next report and before anything else is copied."""
    done: Followed | None = None

    def run(self, pattern: str, every: float) -> None:
        settings = BackupSettings(LocalStore(self.back_up.root))
        client, spark, access = self.back_up.client, self.back_up.spark, self.back_up.access
        self.done = follow(
            lambda meter: BackupRun(client, spark, access, settings, meter),
            WantedTopics(pattern=pattern),
            unheard,
            self.over.is_set,
            every=every,
            told=self._told,
        )

    def _told(self, report: BackupReport) -> None:
        self.reports.append(report)
        then, self.then = self.then, None
        if then is not None:
            then()

    def await_true(self, condition: Callable[[], bool]) -> float:
        """Wait until *condition* holds; returns the seconds that it took."""
        return wait_until(condition, "the stream", 4 * SECONDS, instead=lambda: self.reports[-1:])

    def await_end(self, topic: str, end: int, partition: int = 0) -> float:
        """Wait until everything before *end* is committed; returns the seconds that it took."""

        def there() -> bool:
            manifest = read_manifest(self.back_up.folder(topic))
            held = manifest.partition(partition) if manifest else None
            return held is not None and (held.next_offset or 0) >= end

        return self.await_true(there)


@contextmanager
def following(back_up: BackUp, pattern: str, every: float = SELDOM) -> Iterator[Following]:
    """Follow the topics that fit *pattern*; the first run is done."""
    back_up.spark.context()
    followed = Following(back_up)
    thread = threading.Thread(target=followed.run, args=(pattern, every))
    thread.start()
    try:
        followed.await_true(lambda: bool(followed.reports))
        yield followed
    finally:
        followed.over.set()
        thread.join()


def test_records_are_committed_soon_after_they_were_produced(
    broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(broker, topic, partitions=2)
    took = []
    with following(back_up, topic) as followed:
        for number in range(3):
            produce(broker, topic, numbered(5))
            produce(broker, topic, numbered(2), partition=1)
            took.append(followed.await_end(topic, 5 * number + 5))
            followed.await_end(topic, 2 * number + 2, partition=1)
    assert followed.done is not None
    print(
        "seconds from the last acknowledgement to the commit:", [f"{moment:.2f}" for moment in took]
    )
    assert (followed.done.runs, followed.done.records, followed.done.failures) == (1, 21, [])
    assert followed.done.batches >= 3
    for number in (0, 1):
        assert stored(back_up.root / topic, number) == delivered(broker, topic, number)
        assert len(back_up.manifest(topic).partitions[number].segments) == 1


def test_b10_a_new_topic_and_a_new_partition_are_streamed_within_seconds(
    broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(broker, topic)
    with following(back_up, f"{topic}.*") as followed:
        make(broker, f"{topic}-new")
        produce(broker, f"{topic}-new", numbered(4))
        took = [followed.await_end(f"{topic}-new", 4)]
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers}, logger=LOG)
        client.create_partitions([NewPartitions(topic, 2)])[topic].result(SECONDS)
        broker.wait_until(lambda: len(broker.partitions(topic)) == 2, "the new partition")
        produce(broker, topic, numbered(5), partition=1)
        took.append(followed.await_end(topic, 5, partition=1))
    print("seconds until what is new was committed:", [f"{moment:.2f}" for moment in took])
    for name, partition in ((topic, 1), (f"{topic}-new", 0)):
        assert back_up.bytes(name, partition) == committed_bytes(broker, name, partition)


def test_b1_far_timestamps_in_a_stream_are_kept_and_it_goes_on(
    broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(broker, topic, partitions=2)
    with following(back_up, topic) as followed:
        produce(broker, topic, iter([{"key": b"k", "value": b"v", "timestamp": LONGEST_MS}]))
        followed.await_end(topic, 1)
        produce(broker, topic, numbered(5))
        produce(broker, topic, numbered(5), partition=1)
        followed.await_end(topic, 6)
        followed.await_end(topic, 5, partition=1)
    assert [record.offset for record in back_up.records(topic)] == list(range(6))
    assert back_up.records(topic)[0].timestamp == LONGEST_MS
    assert back_up.bytes(topic, 1) == committed_bytes(broker, topic, 1)


def test_b2_a_topic_created_anew_beside_a_stream_begins_a_generation(
    broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(broker, topic)
    with following(back_up, topic) as followed:
        produce(broker, topic, numbered(5))
        followed.await_end(topic, 5)
        before = back_up.records(topic)
        delete(broker, topic)
        make(broker, topic)
        produce(broker, topic, numbered(50, start=1000))
        followed.await_true(lambda: (back_up.root / f"{topic}~2").is_dir())
        followed.await_end(f"{topic}~2", 50)
        produce(broker, topic, numbered(5))
        followed.await_end(f"{topic}~2", 55)
    assert back_up.records(topic) == before
    assert back_up.bytes(f"{topic}~2") == committed_bytes(broker, topic)


def test_b2_a_topic_that_was_away_for_a_run_is_taken_up_as_soon_as_it_is_back(
    broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(broker, topic)
    with following(back_up, topic) as followed:
        delete(broker, topic)
        followed.await_true(lambda: not followed.reports[-1].topics)
        make(broker, topic)
        produce(broker, topic, numbered(5))
        followed.await_end(f"{topic}~2", 5)
    assert back_up.bytes(f"{topic}~2") == committed_bytes(broker, topic)


def test_b3_an_open_transaction_holds_back_a_stream_until_it_is_decided(
    broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(broker, topic)
    with following(back_up, topic) as followed:
        writer = producer(broker, transactional_id=topic)
        writer.init_transactions(SECONDS)
        for end in (writer.abort_transaction, writer.commit_transaction):
            writer.begin_transaction()
            put(writer, topic, numbered(3))
            produce(broker, topic, numbered(2))
            end(SECONDS)
        followed.await_end(topic, 12)
        missing = followed.done and followed.done.missing
    assert missing is None
    assert followed.done is not None
    assert followed.done.missing == {"aborted": 3, "control": 2}
    assert back_up.bytes(topic) == committed_bytes(broker, topic)


def test_b3_what_retention_takes_before_the_stream_has_it_is_a_gap(
    broker: Cluster, back_up: BackUp, topic: str
) -> None:
    make(broker, topic)

    def overtake() -> None:
        produce(broker, topic, numbered(20))
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers}, logger=LOG)
        (deleted,) = client.delete_records([TopicPartition(topic, 0, 15)]).values()
        deleted.result(SECONDS)

    with following(back_up, topic) as followed:
        followed.then = overtake
        produce(broker, topic, numbered(5))
        followed.await_end(topic, 25)
        produce(broker, topic, numbered(5))
        followed.await_end(topic, 30)
    assert followed.done is not None
    assert followed.done.missing == {"lost": 10}
    assert [record.offset for record in back_up.records(topic)] == [*range(5), *range(15, 30)]


def test_groups_are_saved_every_ten_seconds_also_without_records(
    broker: Cluster, back_up: BackUp, topic: str
) -> None:
    """As it is without --every: the newest in the original's file, each change in the history."""
    from breakglass.services.pipeline.continuous import EVERY_SECONDS
    from breakglass.services.topic_backup import group_history

    make(broker, topic)
    produce(broker, topic, numbered(9))
    with following(back_up, topic, EVERY_SECONDS) as followed:
        took = []
        for offset in (3, 7):
            commit(broker, topic, f"{topic}-group", offset)
            wanted = {f"{topic}-group": offset}
            took.append(
                followed.await_true(lambda wanted=wanted: read(back_up.folder(topic), 0) == wanted)  # type: ignore[misc]
            )
    assert EVERY_SECONDS == 10.0
    folder = back_up.folder(topic)
    states = [group_history.read_state(folder, at) for at in group_history.times(folder.names())]
    assert states == [{0: {f"{topic}-group": 3}}, {0: {f"{topic}-group": 7}}]
