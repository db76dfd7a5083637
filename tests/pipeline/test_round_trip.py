"""Point 5.2: topics of every shape backed up, deleted, restored, and read by somebody else.

As many records as BREAKGLASS_ROUND_TRIP_RECORDS says, a million for the real thing::

    BREAKGLASS_ROUND_TRIP_RECORDS=1000000 pytest tests/pipeline/test_round_trip.py -s
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import configure_topic
from breakglass.services.pipeline.restore.restore import TopicRestored
from tests.kit.waiting import wait_until
from tests.pipeline.backups import BackUp
from tests.pipeline.producing import (
    HEADERS,
    KEYS,
    LOG,
    SECONDS,
    VALUES,
    Values,
    make,
    produce,
    producer,
    put,
    shapes,
)
from tests.pipeline.restores import Restore
from tests.pipeline.test_restore import commit

RECORDS = int(os.environ.get("BREAKGLASS_ROUND_TRIP_RECORDS", "6000"))
RARE = 997
"""One record in so many is a large one."""
HUGE = b"\x00\xff" * 1_000_000
TRANSACTION = 50
COMPACTED_KEYS = 7

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600 if RECORDS > 50_000 else 300)]


def mixed(count: int) -> Iterator[Values]:
    """Mostly small ones of every combination, and now and then one of the large ones."""
    small = itertools.cycle(itertools.product(KEYS, VALUES[:3], HEADERS[:6]))
    large = itertools.cycle(shapes())
    for number in range(count):
        if number % RARE == RARE - 1:
            yield next(large)
        else:
            key, value, headers = next(small)
            stamp = (-1, 1, 1_700_000_000_000 + number, 10**13)[number % 4]
            yield {"key": key, "value": value, "headers": headers, "timestamp": stamp}


def keyed(count: int) -> Iterator[Values]:
    """Few keys, so that compaction leaves holes; some of them end with a tombstone."""
    segment = max(200, count // 20)
    for number in range(count):
        value = None if number % 11 == 10 else b"%d" % number
        stamp = 1_000 * (1 + number // segment)
        yield {"key": b"k%d" % (number % COMPACTED_KEYS), "value": value, "timestamp": stamp}


@dataclass(frozen=True, slots=True)
class Seen:
    """A record as an independent reader sees it."""

    offset: int
    content: bytes


def read(cluster: Cluster, topic: str, partition: int, *, kind: bool) -> list[Seen]:
    """Every committed record, by librdkafka; with the *kind* of its timestamp."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "independent-reader",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        },
        logger=LOG,
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Seen] = []
    while True:
        for message in consumer.consume(10_000, 1.0):
            error = message.error()
            if error is None:
                found.append(Seen(message.offset() or 0, _content(message, kind=kind)))
            elif error.code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return found
            else:
                raise AssertionError(error)


def _content(message: Message, *, kind: bool) -> bytes:
    stamped, stamp = message.timestamp()
    parts = (stamped if kind else 0, stamp, message.key(), message.value(), message.headers())
    return blake2b(repr(parts).encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Case:
    """One topic of the test."""

    topic: str
    partitions: int = 1
    kind: bool = True
    """Whether the kind of its timestamps is kept (B8)."""

    def read(self, cluster: Cluster) -> list[list[Seen]]:
        return [
            read(cluster, self.topic, number, kind=self.kind) for number in range(self.partitions)
        ]


@pytest.fixture
def cases(broker: Cluster, back_up: BackUp, topic: str) -> list[Case]:
    """Topics of every shape, with about `RECORDS` records together."""
    share = RECORDS // 5
    plain, stamped = Case(f"{topic}-mixed", 2), Case(f"{topic}-stamped", kind=False)
    compacted, decided = Case(f"{topic}-compacted"), Case(f"{topic}-decided")
    wide = Case(f"{topic}-wide")
    make(broker, plain.topic, {"max.message.bytes": "3000000"}, partitions=2)
    for number in range(plain.partitions):
        produce(broker, plain.topic, mixed(share), number)
    roomy = producer(broker, message_max_bytes=3_000_000)
    put(roomy, plain.topic, iter([{"key": b"huge", "value": HUGE, "timestamp": 5}]))
    make(broker, stamped.topic, {"message.timestamp.type": "LogAppendTime"})
    produce(broker, stamped.topic, ({**document, "timestamp": 1} for document in mixed(share)))
    make(broker, wide.topic)
    nanoseconds = ({"value": b"n", "timestamp": 10**18 + number} for number in range(20))
    produce(broker, wide.topic, nanoseconds)
    _compact(broker, compacted.topic, share)
    _decide(broker, decided.topic, share)
    for case in (plain, stamped, compacted, decided, wide):
        back_up.await_decided(case.topic)
    return [plain, stamped, compacted, decided, wide]


def _compact(broker: Cluster, topic: str, count: int) -> None:
    """Produce to a compacted topic, wait until it has holes, and let it keep what is left."""
    settings = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
    }
    make(broker, topic, settings)
    writer = producer(broker)
    for _, batch in itertools.groupby(keyed(count), lambda document: document["timestamp"]):
        last = list(batch)
        put(writer, topic, iter(last))
    wait_until(
        lambda: len(read(broker, topic, 0, kind=True)) <= len(last) + COMPACTED_KEYS,
        f"{topic} to be compacted",
        4 * SECONDS,
    )
    # Its copy would be compacted as soon as it is there.
    configure_topic(broker, topic, {"min.compaction.lag.ms": str(2**63 - 1)})


def _decide(broker: Cluster, topic: str, count: int) -> None:
    """Transactions of records, every third of them aborted."""
    make(broker, topic)
    writer = producer(broker, transactional_id=topic)
    writer.init_transactions(SECONDS)
    for number in range(count // TRANSACTION):
        writer.begin_transaction()
        put(writer, topic, mixed(TRANSACTION))
        end = writer.abort_transaction if number % 3 == 2 else writer.commit_transaction
        end(SECONDS)


def groups_of(seen: list[Seen]) -> dict[str, int]:
    """Offsets for groups: at the start, in the middle, behind every hole, at the end."""
    offsets = [one.offset for one in seen]
    behind = next((a + 1 for a, b in itertools.pairwise(offsets) if b > a + 1), 1)
    middle = offsets[len(offsets) // 2]
    return {"start": 0, "middle": middle, "hole": behind, "end": offsets[-1] + 1}


def test_everything_comes_back_and_groups_go_on_at_the_right_record(
    broker: Cluster, back_up: BackUp, restore: Restore, cases: list[Case]
) -> None:
    before = {case.topic: case.read(broker) for case in cases}
    for topic, partitions in before.items():
        for group, offset in groups_of(partitions[0]).items():
            commit(broker, topic, f"{topic}-{group}", offset)
    began = time.monotonic()
    report = back_up(*before)
    assert (report.whole, report.records) == (True, _count(before))
    backed_up = time.monotonic()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for deleted in admin.delete_topics(list(before)).values():
        deleted.result(SECONDS)
    wait_until(lambda: not any(restore.exists(topic) for topic in before), "the topics to go")
    restored = time.monotonic()
    done = [_restored(restore, topic) for topic in before]
    ended = time.monotonic()
    assert sum(restored.records for restored in done) == _count(before)
    for case in cases:
        _compare(broker, case, before[case.topic], case.read(broker))
    print(
        f"\n{_count(before):,} records: backed up in {backed_up - began:.1f} s, restored and "
        f"verified in {ended - restored:.1f} s, of which producing "
        f"{sum(restored.seconds for restored in done):.1f} s"
    )


def _count(seen: dict[str, list[list[Seen]]]) -> int:
    return sum(len(partition) for partitions in seen.values() for partition in partitions)


def _restored(restore: Restore, topic: str) -> TopicRestored:
    done = restore(restore.plan(topic, topic, groups=True))
    assert (done.error, done.verified, done.groups_failed) == ("", True, {})
    assert set(done.declared) <= {"log append time"}
    return done


def _compare(broker: Cluster, case: Case, before: list[list[Seen]], now: list[list[Seen]]) -> None:
    for old, new in zip(before, now, strict=True):
        assert [seen.content for seen in old] == [seen.content for seen in new]
    for group, offset in groups_of(before[0]).items():
        left = [seen.content for seen in before[0] if seen.offset >= offset]
        at = _committed(broker, case.topic, f"{case.topic}-{group}")
        assert [seen.content for seen in now[0] if seen.offset >= at] == left


def _committed(broker: Cluster, topic: str, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    (place,) = consumer.committed([TopicPartition(topic, 0)], SECONDS)
    consumer.close()
    assert place.offset >= 0
    return int(place.offset)
