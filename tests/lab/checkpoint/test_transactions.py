"""Transactions and lineage of real logs: read by this process and by Spark they are the same.

The writers of transactions are of librdkafka, whose transactions share an epoch: they are told
apart by what their coordinator has recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from breakglass.services.checkpoint.kafka.control import RecordAddress, RecordOrigin, stamped
from breakglass.services.checkpoint.kafka.deciding import Decider
from breakglass.services.checkpoint.kafka.logs import (
    Ends,
    Logs,
    ReadLineages,
    Sought,
    read_ends,
    read_here,
    settled,
)
from breakglass.services.checkpoint.kafka.topics import incarnation, subjects
from breakglass.services.checkpoint.kafka.transaction_logs import (
    LoggedBatches,
    ReadContents,
    read_contents_here,
)
from breakglass.services.checkpoint.kafka.transactions import read_floors
from breakglass.services.checkpoint.protocol.lineage import Lineage
from breakglass.services.checkpoint.spark.logs import read_contents, read_lineages
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
from tests.kit.stamps import OUTSIDE
from tests.lab.asking import transactional
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
        named = f"{self.topic}-{name}"
        producer = transactional(self.cluster, named, transaction_timeout_ms=600_000)
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


OF_EACH_TOPIC = 3
GROUPS = ("bank", "audit")
HALF = 40
"""Records of each partition, before the ends are read and after that."""

Headers = Sequence[tuple[str, bytes]]


@dataclass
class Writer:
    """Writes into two topics, each record with a cause in either of them."""

    cluster: Cluster
    client: ReadClient
    topics: tuple[str, str]

    @property
    def settings(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.cluster.bootstrap_servers}

    def logs(self) -> tuple[Logs, Ends]:
        return read_ends(self.client, self.topics, soon())

    def ids(self) -> dict[str, str]:
        return {state.partition.topic: state.topic_id.hex for state in self.logs()[0].states}

    def write(self, offset: int) -> None:
        """So many records into each partition, some of them in transactions, ended or aborted."""
        for transaction, commits in enumerate((True, False, True)):
            with self.transaction(f"{transaction}", commits=commits) as put:
                for number in range(transaction, HALF, 3):
                    for topic in self.topics:
                        for partition in range(OF_EACH_TOPIC):
                            put(topic, partition, self.headers(topic, partition, offset + number))

    def headers(self, topic: str, partition: int, number: int) -> Headers:
        """By turns of either group, from outside, of another timeline, moved by a restore."""
        index, group = number % 2, GROUPS[(number // 2) % len(GROUPS)]
        back = self.topics[(number + self.topics.index(topic)) % 2]
        where = RecordAddress(
            self.ids()[back], (partition + number) % OF_EACH_TOPIC, number + number % 5
        )
        cause = RecordOrigin(where, index, group)
        match number % 7:
            case 3:
                return [("trace", b"x"), *OUTSIDE]
            case 4:
                return stamped(
                    number, RecordOrigin(replace(where, topic_id="f" * 32), index, group)
                )
            case 5:
                return stamped(
                    number, RecordOrigin(replace(where, topic_id="f" * 32), 0, group), cause
                )
            case _:
                return [*stamped(number, cause), ("trace", b"y" * number)]

    @contextmanager
    def transaction(
        self, name: str, *, commits: bool
    ) -> Iterator[Callable[[str, int, Headers], None]]:
        producer = transactional(self.cluster, f"{self.topics[0]}-{name}")
        producer.begin_transaction()

        def put(topic: str, partition: int, headers: Headers) -> None:
            producer.produce(topic, b"v" * 50, partition=partition, headers=list(headers))

        yield put
        assert producer.flush(SECONDS) == 0
        end = producer.commit_transaction if commits else producer.abort_transaction
        end(SECONDS)

    def put(self, topic: str, headers: Headers) -> None:
        producer = Producer(self.settings, logger=LOG)
        producer.produce(topic, b"v", partition=0, headers=list(headers))
        assert producer.flush(SECONDS) == 0

    def sought(self) -> Sought:
        numbers = {
            subject.topic_partition: subject.number for subject in subjects(self.logs()[0].states)
        }
        ids = self.ids()
        causes = {(ids[one.topic], one.partition): number for one, number in numbers.items()}
        return Sought(numbers, causes, GROUPS)


@pytest.fixture
def writer(whole_broker: Cluster, client: ReadClient, topic: str) -> Writer:
    topics = (topic, f"{topic}-too")
    for text in topics:
        create_topic(whole_broker, text, [[1]] * OF_EACH_TOPIC, FOR_EVER)
    return Writer(whole_broker, client, topics)


@pytest.fixture
def lineages_by_spark(taking: Taking) -> ReadLineages:
    return partial(read_lineages, taking.run(), small=0)


def in_order(found: dict[str, list[Lineage]]) -> dict[str, list[tuple[int, int, Any]]]:
    return {
        group: sorted((lineage.partition, lineage.offset, lineage.origin) for lineage in some)
        for group, some in found.items()
    }


def both(
    writer: Writer, lineages_by_spark: ReadLineages, starts: Ends, sought: Sought
) -> Sequence[dict[str, list[Lineage]]]:
    logs, ends = writer.logs()
    return [read(logs, starts, ends, sought) for read in (read_here, lineages_by_spark)]


def test_h08_spark_tells_the_same_of_every_record_and_decides_the_same_cut(
    writer: Writer, lineages_by_spark: ReadLineages
) -> None:
    logs, floors = writer.logs()
    writer.write(0)
    _, ends = writer.logs()
    writer.write(HALF)
    sought = writer.sought()
    here, spark = both(writer, lineages_by_spark, floors, sought)
    assert in_order(spark) == in_order(here)
    assert all(len(some) > HALF for some in here.values())

    told = {sought.numbers[one]: end for one, end in ends.items()}
    offsets = {name: {number: end // 2 for number, end in told.items()} for name in GROUPS}
    within = replace(sought, ends=told, offsets=offsets)
    fewer, by_tasks = both(writer, lineages_by_spark, floors, within)
    assert in_order(by_tasks) == in_order(fewer)
    assert 0 < sum(map(len, fewer.values())) < sum(map(len, here.values()))

    cuts = [decided(writer, logs, floors, ends, read) for read in (read_here, lineages_by_spark)]
    assert replace(cuts[0], at_ms=0) == replace(cuts[1], at_ms=0)
    assert sum(cuts[0].rolled_back.values()) > 0


def decided(
    writer: Writer, logs: Logs, floors: Ends, ends: Ends, read: ReadLineages
) -> CutDocument:
    numbered = subjects(logs.states)
    take = TakeDocument(
        1,
        Level.VERIFIED,
        numbered,
        "request",
        1,
        incarnation=incarnation(logs.states),
        groups=dict.fromkeys(GROUPS, GroupPolicy.EXACTLY_ONCE),
        floors={partition.number: floors[partition.topic_partition] for partition in numbered},
    )
    started = StartedDocument(
        1, {partition.number: ends[partition.topic_partition] for partition in numbered}
    )
    return Decider(writer.client, read_lineages=read).decide(take, started)


def test_h10_spark_refuses_the_same_record_with_the_same_words(
    writer: Writer, lineages_by_spark: ReadLineages
) -> None:
    _, floors = writer.logs()
    sought = writer.sought()
    said = []
    foreign: Headers = [("trace", b"no participant")]
    where = RecordAddress(writer.ids()[writer.topics[0]], 0, 0)
    unnamed = stamped(1, RecordOrigin(where, 0, "nobody"))
    for headers in (unnamed, foreign):
        # The second one lies behind the first: the first stays the reason.
        writer.put(writer.topics[1], headers)
        logs, ends = writer.logs()
        for read in (read_here, lineages_by_spark):
            with pytest.raises(Refused) as refused:
                read(logs, floors, ends, sought)
            said.append(str(refused.value))
    assert len(set(said)) == 1
    assert "group nobody writes into" in said[0]
