"""Transactions read off real logs: by this process and by Spark the same, and the cut they lead to.

The writers are of librdkafka, whose transactions share an epoch: they are told apart by what their
coordinator has recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from breakglass.services.checkpoint.kafka.deciding import Decider
from breakglass.services.checkpoint.kafka.logs import Ends, Logs, read_ends, settled
from breakglass.services.checkpoint.kafka.topics import incarnation, subjects
from breakglass.services.checkpoint.kafka.transaction_logs import (
    LoggedBatches,
    ReadContents,
    read_contents_here,
)
from breakglass.services.checkpoint.kafka.transactions import read_floors
from breakglass.services.checkpoint.parts import read_contents
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    GroupPolicy,
    Level,
    StartedDocument,
    TakeDocument,
    TransactionFloors,
)
from breakglass.services.errors import Refused, TimedOut
from breakglass.services.kafka.cluster.group_offsets import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from tests.lab.backup.producing import FOR_EVER
from tests.lab.checkpoint.branch import LOG, SECONDS, soon
from tests.lab.checkpoint.taking import Taking

PARTITIONS = 2


@dataclass
class Application:
    """A topic that it reads, a topic that it writes, and its transactions, step by step."""

    cluster: Cluster
    client: ReadClient
    topic: str
    floors: Ends = field(default_factory=dict)
    before: TransactionFloors = field(default_factory=lambda: TransactionFloors({}))
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """Those that are given here; others are the current ends."""

    @property
    def input(self) -> str:
        return f"{self.topic}-in"

    @property
    def group(self) -> str:
        return f"group-of-{self.topic}"

    @property
    def settings(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.cluster.bootstrap_servers}

    def logs(self) -> tuple[Logs, Ends]:
        return read_ends(self.client, (self.input, self.topic), soon())

    def begin(self) -> None:
        """Read the floors, as a take does first."""
        logs, _ = self.logs()
        numbers = {
            partition.topic_partition: partition.number for partition in subjects(logs.states)
        }
        self.before = read_floors(self.client, logs, (self.group,), numbers, soon())
        self.floors = {place: self.before.stable[number] for place, number in numbers.items()}

    def end_of(self, partition: int) -> None:
        """Let the checkpoint end here in that partition of the topic that is written."""
        place = TopicPartition(self.topic, partition)
        self.ends[place] = self.logs()[1][place]

    @contextmanager
    def transaction(self, name: str, *, commits: bool = True) -> Iterator[Writing]:
        """A transaction, ended with the block."""
        with self.writer(name) as producer:
            producer.begin_transaction()
            yield Writing(self, producer)
            if commits:
                producer.commit_transaction(SECONDS)
            else:
                producer.abort_transaction(SECONDS)

    @contextmanager
    def writer(self, name: str) -> Iterator[Any]:
        ids = {"transactional.id": f"{self.topic}-{name}", "transaction.timeout.ms": 600_000}
        producer = Producer({**self.settings, **ids}, logger=LOG)
        producer.init_transactions(SECONDS)
        yield producer

    def feed(self, count: int) -> None:
        """Input from outside, outside any transaction."""
        producer = Producer(self.settings, logger=LOG)
        for number in range(count):
            producer.produce(self.input, b"i", partition=number % PARTITIONS)
        assert producer.flush(SECONDS) == 0

    def take(self, **more: Any) -> tuple[TakeDocument, StartedDocument]:
        logs, now = self.logs()
        numbered = subjects(logs.states)
        ends = {**now, **self.ends}
        take = TakeDocument(
            1,
            Level.TRANSACTIONAL,
            numbered,
            "request",
            1,
            incarnation=incarnation(logs.states),
            groups={self.group: GroupPolicy.EXACTLY_ONCE},
            floors={one.number: self.floors[one.topic_partition] for one in numbered},
            external=(self.input,),
            transactions=self.before,
        )
        return replace(take, **more), StartedDocument(
            1, {one.number: ends[one.topic_partition] for one in numbered}
        )

    def decided(self, read: ReadContents = read_contents_here, **more: Any) -> Cut:
        take, started = self.take(**more)
        found = Decider(self.client, SECONDS, read_contents=read).decide(take, started)
        return Cut(self, take, started, found)

    def contents(self, *reads: ReadContents) -> list[LoggedBatches]:
        """What each of *reads* finds, up to the same ends."""
        topics = (self.input, self.topic, OFFSETS_TOPIC)
        logs, _ = settled(self.client, topics, soon())
        stable = logs.stable_ends(soon())
        starts = dict(self.floors)
        for number, start in self.before.logs[OFFSETS_TOPIC].items():
            starts[TopicPartition(OFFSETS_TOPIC, number)] = start
        ends = {log: stable[log] for log in starts}
        return [read(logs, starts, ends, (self.group,)) for read in reads]


@dataclass
class Writing:
    """An open transaction."""

    application: Application
    producer: Any

    def put(self, partition: int, count: int = 1) -> None:
        """Write, and wait until it is there."""
        for _ in range(count):
            self.producer.produce(self.application.topic, b"v" * 20, partition=partition)
        assert self.producer.flush(SECONDS) == 0

    def commit(self, partition: int, offset: int, topic: str = "") -> None:
        """Commit the offset of the input, or of another topic, with the transaction."""
        settings = {**self.application.settings, "group.id": self.application.group}
        consumer = Consumer(settings, logger=LOG)
        metadata = consumer.consumer_group_metadata()
        places = [Place(topic or self.application.input, partition, offset)]
        self.producer.send_offsets_to_transaction(places, metadata, SECONDS)
        consumer.close()


@dataclass
class Cut:
    """A decision, by the names of partitions."""

    application: Application
    take: TakeDocument
    started: StartedDocument
    found: CutDocument

    def position(self, partition: int) -> int:
        return self.found.positions[self._number(self.application.topic, partition)]

    def lowered(self, partition: int) -> int:
        return self.found.rolled_back[self._number(self.application.topic, partition)]

    def in_transit(self, partition: int) -> tuple[int, ...]:
        return self.found.in_transit.get(self._number(self.application.topic, partition), ())

    def offset(self, partition: int) -> int | None:
        offsets: Mapping[int, int] = self.found.groups[self.application.group].offsets
        return offsets.get(self._number(self.application.input, partition))

    def _number(self, topic: str, partition: int) -> int:
        return next(
            one.number
            for one in self.take.partitions
            if one.topic_partition == TopicPartition(topic, partition)
        )


@pytest.fixture
def application(whole_broker: Cluster, client: ReadClient, topic: str) -> Application:
    found = Application(whole_broker, client, topic)
    for name in (found.input, found.topic):
        create_topic(whole_broker, name, [[1]] * PARTITIONS, FOR_EVER)
    found.feed(20)
    with found.transaction("first") as writing:
        writing.put(0)
        writing.commit(0, 1)
    found.begin()
    return found


@pytest.fixture
def by_spark(taking: Taking) -> ReadContents:
    return partial(read_contents, taking.run(), small=0)


def torn(application: Application) -> None:
    """One whole transaction, one that is half before the ends and overlaps another, and more."""
    with application.transaction("a") as writing:
        writing.put(0, 3)
        writing.put(1, 2)
        writing.commit(0, 3)
    with application.transaction("b") as writing:
        writing.put(0, 2)
        writing.commit(0, 4)
        with application.transaction("c") as other:
            other.put(0)
            other.commit(1, 5)
        # The checkpoint's ends are read a moment apart: what b has written to 1 is after them.
        application.end_of(1)
        writing.put(1, 2)
    application.end_of(0)
    with application.transaction("a") as writing:
        writing.put(1, 1)
        writing.commit(0, 5)
    with application.transaction("d", commits=False) as writing:
        writing.put(0, 2)


def test_h15_a_torn_transaction_is_left_out_with_its_offsets_and_what_overlaps_it_stays(
    application: Application,
) -> None:
    torn(application)
    cut = application.decided()
    first = application.floors[TopicPartition(application.topic, 0)]
    # Three records and a marker of a, then two of b, then one of c.
    assert cut.position(0) == first + 4
    assert cut.in_transit(0) == (first + 6,)
    assert cut.lowered(0) > 3
    assert cut.lowered(1) == 0
    assert (cut.offset(0), cut.offset(1)) == (3, 5)
    assert cut.found.left_out == 1


def test_h15_spark_reads_the_same_of_every_log_and_decides_the_same(
    application: Application, by_spark: ReadContents
) -> None:
    torn(application)
    for number in range(30):
        with application.transaction("e", commits=number % 3 > 0) as writing:
            writing.put(number % PARTITIONS, 5)
            writing.commit(number % PARTITIONS, 6 + number // 4)
    here, spark = application.contents(read_contents_here, by_spark)
    assert here == spark
    assert sum(map(len, here.batches.values())) > 100
    assert sum(map(len, here.commits.values())) > 20
    cuts = [application.decided(read).found for read in (read_contents_here, by_spark)]
    assert replace(cuts[0], at_ms=0) == replace(cuts[1], at_ms=0)


def test_h15_an_open_transaction_is_waited_for_and_named(application: Application) -> None:
    with application.writer("open") as producer:
        producer.begin_transaction()
        Writing(application, producer).put(0)
        take, started = application.take()
        with pytest.raises(TimedOut, match=f"{application.topic}-0"):
            Decider(application.client, 1.0).decide(take, started)
        producer.abort_transaction(SECONDS)


def test_h15_a_record_outside_any_transaction_is_refused_where_its_topic_is_not_declared(
    application: Application,
) -> None:
    application.feed(2)
    with pytest.raises(Refused):
        application.decided(external=())


def test_h15_a_group_that_reads_another_topic_is_refused(application: Application) -> None:
    other = f"{application.topic}-other"
    create_topic(application.cluster, other, [[1]] * PARTITIONS, FOR_EVER)
    with application.transaction("a") as writing:
        writing.put(0)
        writing.commit(0, 1, other)
    with pytest.raises(Refused, match=f"also reads {other}"):
        application.decided()
