"""H8: what Spark tells of lineage is what reading the logs here tells, record by record."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer

from breakglass.services.checkpoint.kafka.control import RecordAddress, RecordOrigin, stamped
from breakglass.services.checkpoint.kafka.deciding import Decider
from breakglass.services.checkpoint.kafka.logs import (
    Ends,
    Logs,
    ReadLineages,
    Sought,
    read_ends,
    read_here,
)
from breakglass.services.checkpoint.kafka.topics import incarnation, subjects
from breakglass.services.checkpoint.parts import read_lineages
from breakglass.services.checkpoint.protocol.lineage import Lineage
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    GroupPolicy,
    Level,
    StartedDocument,
    TakeDocument,
)
from breakglass.services.errors import Refused
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from tests.kit.stamps import OUTSIDE
from tests.lab.backup.producing import FOR_EVER
from tests.lab.checkpoint.branch import LOG, SECONDS, soon
from tests.lab.checkpoint.taking import Taking

PARTITIONS = 3
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
                        for partition in range(PARTITIONS):
                            put(topic, partition, self.headers(topic, partition, offset + number))

    def headers(self, topic: str, partition: int, number: int) -> Headers:
        """By turns of either group, from outside, of another timeline, moved by a restore."""
        index, group = number % 2, GROUPS[(number // 2) % len(GROUPS)]
        back = self.topics[(number + self.topics.index(topic)) % 2]
        where = RecordAddress(
            self.ids()[back], (partition + number) % PARTITIONS, number + number % 5
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
        producer = Producer({**self.settings, "transactional.id": f"{self.topics[0]}-{name}"})
        producer.init_transactions(SECONDS)
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
        create_topic(whole_broker, text, [[1]] * PARTITIONS, FOR_EVER)
    return Writer(whole_broker, client, topics)


@pytest.fixture
def by_spark(taking: Taking) -> ReadLineages:
    return partial(read_lineages, taking.run(), small=0)


def in_order(found: dict[str, list[Lineage]]) -> dict[str, list[tuple[int, int, Any]]]:
    return {
        group: sorted((lineage.partition, lineage.offset, lineage.origin) for lineage in some)
        for group, some in found.items()
    }


def both(
    writer: Writer, by_spark: ReadLineages, starts: Ends, sought: Sought
) -> Sequence[dict[str, list[Lineage]]]:
    logs, ends = writer.logs()
    return [read(logs, starts, ends, sought) for read in (read_here, by_spark)]


def test_h08_spark_tells_the_same_of_every_record_and_decides_the_same_cut(
    writer: Writer, by_spark: ReadLineages
) -> None:
    logs, floors = writer.logs()
    writer.write(0)
    _, ends = writer.logs()
    writer.write(HALF)
    sought = writer.sought()
    here, spark = both(writer, by_spark, floors, sought)
    assert in_order(spark) == in_order(here)
    assert all(len(some) > HALF for some in here.values())

    told = {sought.numbers[one]: end for one, end in ends.items()}
    offsets = {name: {number: end // 2 for number, end in told.items()} for name in GROUPS}
    within = replace(sought, ends=told, offsets=offsets)
    fewer, by_tasks = both(writer, by_spark, floors, within)
    assert in_order(by_tasks) == in_order(fewer)
    assert 0 < sum(map(len, fewer.values())) < sum(map(len, here.values()))

    cuts = [decided(writer, logs, floors, ends, read) for read in (read_here, by_spark)]
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
    writer: Writer, by_spark: ReadLineages
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
        for read in (read_here, by_spark):
            with pytest.raises(Refused) as refused:
                read(logs, floors, ends, sought)
            said.append(str(refused.value))
    assert len(set(said)) == 1
    assert "group nobody writes into" in said[0]
