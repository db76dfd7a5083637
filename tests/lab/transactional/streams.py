"""A Kafka Streams application on real brokers: exactly once, with a repartition and a changelog.

Its source is `java/Ledger.java`, compiled here. Instances are processes, which can be killed.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from confluent_kafka import KafkaException, Producer

from breakglass.services.checkpoint.kafka.logs import read_logs
from breakglass.services.checkpoint.kafka.owners import lags, read_named_groups
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.distribution import distribution
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.asking import messages
from tests.lab.backup.original import COMPILER, fetched
from tests.lab.checkpoint.branch import turns
from tests.lab.checkpoint.member_process import MemberProcess, until_the_end
from tests.lab.transactional.kit import Cut, Entries, Faults, offsets_of

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
SOURCE = Path(__file__).parent / "java" / "Ledger.java"
ENTRIES, SUMS = "entries", "sums"
SECONDS = DEADLINE_SECONDS
ACCOUNTS = 20
A_BURST = 50
RATE = 600
"""Entries a second."""


def compiled(target: Path) -> str:
    """The class path of the application, compiled into the folder *target*."""
    kafka = distribution()
    (streams,) = fetched(f"org.apache.kafka:kafka-streams:{kafka.version}")
    (compiler,) = fetched(COMPILER)
    classpath = os.pathsep.join((str(target), str(streams), kafka.classpath))
    options = ["-17", "-nowarn", "-proc:none", "-cp", classpath, "-d", str(target)]
    subprocess.run([str(kafka.java), "-jar", str(compiler), *options, str(SOURCE)], check=True)
    return classpath


@dataclass(frozen=True, slots=True)
class Ledger:
    """The application: its topics on a cluster, and how it is started."""

    cluster: Cluster
    name: str
    classpath: str
    folder: Path
    """For local state, which a restore makes invalid, and logs."""
    partitions: int = 3
    at_least: int = 300
    """Records that it processes before a checkpoint is taken."""

    @property
    def input(self) -> str:
        return f"{self.name}-in"

    @property
    def output(self) -> str:
        return f"{self.name}-out"

    @property
    def repartition(self) -> str:
        return f"{self.name}-{ENTRIES}-repartition"

    @property
    def changelog(self) -> str:
        return f"{self.name}-{SUMS}-changelog"

    @property
    def topics(self) -> tuple[str, ...]:
        return (self.input, self.repartition, self.changelog, self.output)

    @property
    def group(self) -> str:
        return self.name

    @property
    def connection(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.cluster.bootstrap_servers}

    def open(self) -> Ledger:
        """Make the topics that the application does not make itself."""
        for topic in (self.input, self.output):
            create_topic(self.cluster, topic, turns(self.cluster, self.partitions))
        return self

    def running(self, instances: int = 2) -> AbstractContextManager[list[Instance]]:
        """Instances at work, ended with the block."""
        return until_the_end([Instance(self, number) for number in range(instances)])

    @contextmanager
    def fed(self) -> Iterator[None]:
        """Entries are written into the input, in transactions, until the block ends.

        The writer is no participant and speaks version 1 of transactions, as all of librdkafka.
        """
        stop = Event()
        with ThreadPoolExecutor(1, "writer") as pool:
            writing = pool.submit(_write, self, stop)
            try:
                yield
            finally:
                stop.set()
            writing.result(SECONDS)

    def ask(self) -> None:
        """It is fed all the time."""

    def processed(self, client: ReadClient) -> int:
        """Of its repartition topic, whose ends are those of another's transactions."""
        found = offsets_of(client, self.group, self.topics)
        return sum(offset for place, offset in found.items() if place.topic == self.repartition)

    def idle(self, client: ReadClient) -> bool:
        """Whether nothing is left to be processed."""
        deadline = Deadline.after(SECONDS)
        try:
            logs = read_logs(client, (self.input, self.repartition), deadline)
            ends, high = logs.stable_ends(deadline), logs.high_watermarks(deadline)
            read = {place: end for place, end in ends.items() if end}
            standing = read_named_groups(client, (self.name,), read, deadline)
            return ends == high and not lags(standing, read, self._only_markers)
        except BreakglassError:
            return False

    def _only_markers(self, place: TopicPartition, start: int, end: int) -> bool:
        found = entries_of(self, place.topic)
        return all(not start <= offset < end for offset, _, _ in found[place])

    def faults_in(self, cut: Cut, logs: Entries) -> Faults:
        """The accounts that are wrong once the application has continued from *cut*.

        Its own reading: what the store holds, and what lies unprocessed in the repartition topic
        and in the input, has to come to all that the input has.
        """
        inputs: list[bytes] = []
        pending: list[bytes] = []
        store: dict[bytes, bytes] = {}
        for place, records in logs.items():
            for offset, key, value in records:
                if not cut.has(place, offset):
                    continue
                assert value is not None
                unread = offset >= cut.offsets.get(place, 0)
                if place.topic == self.input:
                    inputs.append(value)
                    pending += [value] if unread else []
                elif place.topic == self.repartition and unread:
                    pending.append(value)
                elif place.topic == self.changelog:
                    assert key is not None
                    store[key] = value
        found = totals(pending)
        for key, value in store.items():
            count, total = map(int, value.split(b":"))
            before = found.get(key.decode(), (0, 0))
            found[key.decode()] = (before[0] + count, before[1] + total)
        return _different(found, totals(inputs))

    def faults(self) -> Faults:
        """What is wrong now, by what it has put out last of each account; it has ended."""
        inputs = entries_of(self, self.input).values()
        values = [value for some in inputs for _, _, value in some if value is not None]
        assert values
        found: Totals = {}
        for records in entries_of(self, self.output).values():
            for _, key, value in records:
                assert key is not None
                assert value is not None
                count, total = map(int, value.split(b":"))
                found[key.decode()] = (count, total)
        return _different(found, totals(values))


@dataclass(slots=True)
class Instance(MemberProcess):
    """A process of the application."""

    ledger: Ledger
    number: int
    process: subprocess.Popen[bytes] = field(init=False)

    def launched(self) -> subprocess.Popen[bytes]:
        ledger = self.ledger
        kafka = distribution()
        state = ledger.folder / f"state-{self.number}"
        state.mkdir(parents=True, exist_ok=True)
        java = [str(kafka.java), "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        told = [ledger.name, ledger.cluster.bootstrap_servers, ledger.input, ledger.output]
        replicas = min(3, len(ledger.cluster.brokers))
        with (ledger.folder / f"log-{self.number}").open("ab") as log:
            return subprocess.Popen(
                [*java, "-cp", ledger.classpath, "Ledger", *told, str(state), str(replicas)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """kill -9."""
        super(Instance, self).kill()
        self._left()

    def end(self) -> None:
        """End it as its operator would."""
        super(Instance, self).end()
        self._left()

    def _left(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


def _write(ledger: Ledger, stop: Event) -> None:
    number = 0
    settings = {
        **ledger.connection,
        "transactional.id": f"writer-of-{ledger.name}",
        "transaction.timeout.ms": 60_000,
    }
    producer = Producer(settings, logger=LOG)
    producer.init_transactions(SECONDS)
    while not stop.is_set():
        producer.begin_transaction()
        for _ in range(A_BURST):
            number += 1
            producer.produce(
                ledger.input,
                f"{number % ACCOUNTS}:{number}".encode(),
                key=str(number).encode(),
                partition=number % ledger.partitions,
            )
        try:
            producer.commit_transaction(SECONDS)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(SECONDS)
        stop.wait(A_BURST / RATE)


def entries_of(ledger: Ledger, *topics: str) -> Entries:
    """The committed records of *topics*, up to the current ends."""
    return {
        place: [(one.offset(), one.key(), one.value()) for one in messages(ledger.cluster, place)]  # type: ignore[misc]
        for place in (state.partition for state in ledger.cluster.partitions(*topics))
    }


Totals = dict[str, tuple[int, int]]
"""The number of entries of each account, and the sum of their numbers."""


def _different(found: Totals, wanted: Totals) -> Faults:
    return {
        account: (found.get(account), wanted.get(account))
        for account in sorted({*found, *wanted})
        if found.get(account) != wanted.get(account)
    }


def totals(entries: list[bytes]) -> Totals:
    """What *entries* come to."""
    found: Totals = {}
    for entry in entries:
        account, number = entry.decode().split(":")
        count, total = found.get(account, (0, 0))
        found[account] = (count + 1, total + int(number))
    return found
