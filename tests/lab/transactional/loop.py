"""A bank as its owner would write it with confluent-kafka: a transactional loop, no participant.

Each member consumes, produces and commits its offsets in one transaction. What it writes goes into
the topic that it reads: the topology has a cycle. Its state is replayed from the topic.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from breakglass.services.checkpoint.kafka.logs import read_logs
from breakglass.services.checkpoint.participant.participant import Input
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.asking import transactional
from tests.lab.checkpoint.bank import OPENING, Bank, Books, books, deposit, orders
from tests.lab.checkpoint.branch import turns
from tests.lab.checkpoint.member_process import MemberProcess, until_the_end
from tests.lab.transactional.kit import Cut, Entries, Faults, offsets_of

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
SECONDS = DEADLINE_SECONDS
POLL_SECONDS = 0.05
A_BATCH = 20
"""Records of a transaction, at most."""
ORDERS, HOPS = 60, 30
"""What the bank gets before each try."""
EVERYTHING = 2**62
"""An offset that no record has."""

Records = dict[int, list[tuple[int, bytes | None]]]
"""Offset and value, by partition."""


@dataclass(slots=True)
class PlainBank:
    """The bank's topic and group."""

    cluster: Cluster
    topic: str
    partitions: int = 6
    group: str = ""
    at_least: int = 150
    """Records that it processes before a checkpoint is taken."""
    _orders: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.group = self.group or f"group-of-{self.topic}"

    @property
    def topics(self) -> tuple[str, ...]:
        return (self.topic,)

    @property
    def connection(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.cluster.bootstrap_servers}

    @property
    def total(self) -> int:
        """What all accounts have together."""
        return OPENING * self.partitions

    def open(self) -> PlainBank:
        """Make the topic, and give each account its money."""
        create_topic(self.cluster, self.topic, turns(self.cluster, self.partitions))
        self.put([(number, deposit(f"opening-{number}", OPENING)) for number in self._numbers])
        return self

    @property
    def _numbers(self) -> range:
        return range(self.partitions)

    @contextmanager
    def fed(self) -> Iterator[None]:
        """It is given orders before each try."""
        yield

    def ask(self) -> None:
        """Give it something to do, before each try."""
        self.order(ORDERS, HOPS)

    def order(self, count: int, hops: int) -> None:
        """Have customers give *count* orders."""
        self.put(orders(self.topic, self.partitions, self._orders, count, hops))
        self._orders += count

    def put(self, records: list[tuple[int, bytes]]) -> None:
        """Write *records* in one transaction of a writer from outside."""
        named = f"customers-of-{self.topic}"
        producer = transactional(self.cluster, named, transaction_timeout_ms=60_000)
        producer.begin_transaction()
        for partition, value in records:
            producer.produce(self.topic, value, partition=partition)
            producer.poll(0)
        producer.commit_transaction(SECONDS)

    def running(self, members: int = 2) -> AbstractContextManager[list[LoopMember]]:
        """Members at work, ended with the block."""
        return until_the_end([LoopMember(self, f"m{number}") for number in range(members)])

    def records(self) -> Records:
        """The committed records, up to the current ends."""
        return {
            number: [(message.offset(), message.value()) for message in some]
            for number, some in _committed(self, dict.fromkeys(self._numbers, 0), {}).items()
        }

    def processed(self, client: ReadClient) -> int:
        """How far it has come."""
        return sum(offsets_of(client, self.group, self.topics).values())

    def idle(self, client: ReadClient) -> bool:
        """Whether nothing is left to be processed."""
        deadline = Deadline.after(SECONDS)
        try:
            logs = read_logs(client, self.topics, deadline)
            if logs.stable_ends(deadline) != logs.high_watermarks(deadline):
                return False
        except BreakglassError:
            return False
        standing = offsets_of(client, self.group, self.topics).items()
        read = {place.partition: offset for place, offset in standing}
        return all(
            offset < read.get(number, 0)
            for number, some in self.records().items()
            for offset, _ in some
        )

    def faults_in(self, cut: Cut, logs: Entries) -> Faults:
        """What would be wrong once it had continued from what a backup has of it."""
        records = {
            place.partition: [(offset, value) for offset, _, value in some]
            for place, some in logs.items()
        }
        return self._faults(
            records, {place.partition: offset for place, offset in cut.offsets.items()}
        )

    def faults(self) -> Faults:
        """What is wrong now; it is idle, and has ended."""
        return self._faults(self.records(), dict.fromkeys(self._numbers, EVERYTHING))

    def _faults(self, records: Records, offsets: Mapping[int, int]) -> Faults:
        """Of a bank that continues at *offsets* with *records*, once nothing is under way."""
        application = Bank(self.partitions)
        waiting: list[Input] = []
        for number, some in records.items():
            partition = TopicPartition(self.topic, number)
            application.begin(partition, None)
            for offset, value in some:
                given = Input(partition, offset, None, value)
                if offset < offsets.get(number, 0):
                    application.replay(given)
                else:
                    waiting.append(given)
        written = 10**12
        while waiting:
            for output in application.process(waiting.pop(0)):
                assert output.partition is not None
                written += 1
                to = TopicPartition(self.topic, output.partition)
                waiting.append(Input(to, written, None, output.value))
        found, wanted = books(application.accounts.values()), Books(self.total, (), ())
        return {} if found == wanted else {"all accounts": (str(found), str(wanted))}


@dataclass(slots=True)
class LoopMember(MemberProcess):
    """A member of the group."""

    bank: PlainBank
    name: str
    process: subprocess.Popen[bytes] = field(init=False)

    def launched(self) -> subprocess.Popen[bytes]:
        bank = self.bank
        given = [bank.cluster.bootstrap_servers, bank.topic, bank.group, self.name]
        rest = [str(bank.partitions), str(os.getpid())]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.lab.transactional.loop", *given, *rest],
            stderr=subprocess.DEVNULL,
        )


def _committed(
    bank: PlainBank, starts: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, list[Any]]:
    """The committed messages of each partition from its start to its end, or to its current end."""
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    settings = {
        **bank.connection,
        "group.id": "nobody",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    found: dict[int, list[Any]] = {number: [] for number in starts}
    consumer = Consumer(settings, logger=LOG)
    try:
        consumer.assign([Place(bank.topic, number, start) for number, start in starts.items()])
        waiting = set(starts)
        while waiting:
            message: Any = consumer.poll(SECONDS)
            assert message is not None, waiting
            number = message.partition()
            if message.error() is not None or message.offset() >= ends.get(number, EVERYTHING):
                waiting.discard(number)
            elif number in waiting:
                found[number].append(message)
    finally:
        consumer.close()
    return found


class _Loop:
    """One member: consumes, produces and commits in transactions, until it is stopped or fenced."""

    def __init__(self, bank: PlainBank, name: str) -> None:
        from confluent_kafka import Consumer, Producer

        self._bank, self._application = bank, Bank(bank.partitions)
        self._producer = Producer(
            {
                **bank.connection,
                "transactional.id": f"{bank.group}-{name}",
                "transaction.timeout.ms": 10_000,
            },
            logger=LOG,
        )
        self._producer.init_transactions(SECONDS)
        self._consumer = Consumer(
            {
                **bank.connection,
                "group.id": bank.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 6_000,
                "partition.assignment.strategy": "range",
            },
            logger=LOG,
        )
        self._consumer.subscribe([bank.topic], on_assign=self._assigned)

    def _assigned(self, consumer: Any, places: list[Any]) -> None:
        committed = consumer.committed(places, SECONDS)
        self._application = Bank(self._bank.partitions)
        ends = {place.partition: max(0, place.offset) for place in committed}
        starts = dict.fromkeys((number for number, end in ends.items() if end), 0)
        replayed = _committed(self._bank, starts, ends) if starts else {}
        for number in ends:
            partition = TopicPartition(self._bank.topic, number)
            self._application.begin(partition, None)
            for message in replayed.get(number, ()):
                self._application.replay(_input(message))

    def run(self, stop: Event) -> None:
        try:
            while not stop.is_set():
                messages = self._consumer.consume(A_BATCH, POLL_SECONDS)
                good = [message for message in messages if message.error() is None]
                if good:
                    self._process(good)
        finally:
            self._consumer.close()

    def _process(self, messages: list[Any]) -> None:
        from confluent_kafka import TopicPartition as Place

        self._producer.begin_transaction()
        ends: dict[int, int] = {}
        for message in messages:
            for output in self._application.process(_input(message)):
                assert output.partition is not None
                self._producer.produce(output.topic, output.value, partition=output.partition)
            ends[message.partition()] = message.offset() + 1
        places = [Place(self._bank.topic, number, end) for number, end in ends.items()]
        metadata = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(places, metadata, SECONDS)
        self._producer.commit_transaction(SECONDS)


def _input(message: Any) -> Input:
    partition = TopicPartition(message.topic(), message.partition())
    return Input(partition, message.offset(), message.key(), message.value())


def _main() -> None:
    from confluent_kafka import KafkaException

    parser = argparse.ArgumentParser()
    for name in ("servers", "topic", "group", "member"):
        parser.add_argument(name)
    parser.add_argument("partitions", type=int)
    parser.add_argument("parent", type=int)
    given = parser.parse_args()
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    @dataclass
    class _There:
        bootstrap_servers: str

    there: Any = _There(given.servers)
    bank = PlainBank(there, given.topic, given.partitions, given.group)
    while not stop.is_set() and os.getppid() == given.parent:
        # After an error, the state in memory may be of an aborted transaction: begin again.
        with suppress(KafkaException):
            _Loop(bank, given.member).run(_Ended(stop, given.parent))


class _Ended(Event):
    """Set once the member is to end, or its parent is gone."""

    def __init__(self, stop: Event, parent: int) -> None:
        super().__init__()
        self._stop, self._parent = stop, parent

    def is_set(self) -> bool:
        return self._stop.is_set() or os.getppid() != self._parent


if __name__ == "__main__":
    _main()
