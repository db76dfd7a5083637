"""The applications of the soaks of transactional checkpoints, behind one interface.

A Kafka Streams application, and a bank of confluent-kafka whose topology has a cycle. Each knows
how it is run, how far it has come, and whether a backup of it is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from breakglass.services.checkpoint.kafka.groups import lags, read_named_groups
from breakglass.services.checkpoint.kafka.logs import read_logs
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.model import TopicPartition
from tests.lab.checkpoint.bank import Books, books
from tests.lab.transactional.kit import SECONDS, Cut, Entries, offsets_of
from tests.lab.transactional.loop import PlainBank, accounts_of, worked_off
from tests.lab.transactional.streams import (
    Ledger,
    Totals,
    compiled,
    counted,
    entries_of,
    fed,
    miscounted,
    totals,
)

RATE = 600
"""Entries a second that the Kafka Streams application gets."""
ORDERS, HOPS = 60, 30
"""What the bank gets before each try."""

Faults = Mapping[str, Any]
"""What is wrong, by account: what it is, and what it should be."""


class Killable(Protocol):
    """A process of an application."""

    def kill(self) -> None: ...
    def start(self) -> None: ...


class Workload(Protocol):
    """An application on a cluster, with topics and a group of its own."""

    @property
    def at_least(self) -> int:
        """Records that it processes before a checkpoint is taken."""

    @property
    def cluster(self) -> Cluster: ...
    @property
    def group(self) -> str: ...
    @property
    def topics(self) -> tuple[str, ...]: ...

    def running(self, instances: int = 2) -> AbstractContextManager[Sequence[Killable]]:
        """Processes at work, ended with the block."""

    def fed(self) -> AbstractContextManager[None]:
        """Input comes until the block ends."""

    def ask(self) -> None:
        """Give it something to do, before each try."""

    def processed(self, client: ReadClient) -> int:
        """How far it has come."""

    def idle(self, client: ReadClient) -> bool:
        """Whether nothing is left to be processed."""

    def faults_in(self, cut: Cut, logs: Entries) -> Faults:
        """What would be wrong once it had continued from what a backup has of it."""

    def faults(self) -> Faults:
        """What is wrong now; it is idle, and has ended."""


@dataclass(frozen=True, slots=True)
class StreamsWork:
    """Kafka Streams: exactly once, with a repartition and a changelog, at load."""

    ledger: Ledger
    at_least: int = 300

    @property
    def cluster(self) -> Cluster:
        return self.ledger.cluster

    @property
    def group(self) -> str:
        return self.ledger.name

    @property
    def topics(self) -> tuple[str, ...]:
        return self.ledger.topics

    def running(self, instances: int = 2) -> AbstractContextManager[Sequence[Killable]]:
        return self.ledger.running(instances)

    def fed(self) -> AbstractContextManager[None]:
        return fed(self.ledger, RATE)

    def ask(self) -> None:
        """It is fed all the time."""

    def processed(self, client: ReadClient) -> int:
        """Of its repartition topic, whose ends are those of another's transactions."""
        found = offsets_of(client, self.group, self.topics)
        return sum(
            offset for place, offset in found.items() if place.topic == self.ledger.repartition
        )

    def idle(self, client: ReadClient) -> bool:
        ledger, deadline = self.ledger, Deadline.after(SECONDS)
        try:
            logs = read_logs(client, (ledger.input, ledger.repartition), deadline)
            ends, high = logs.stable_ends(deadline), logs.high_watermarks(deadline)
            read = {place: end for place, end in ends.items() if end}
            standing = read_named_groups(client, (ledger.name,), read, deadline)
            return ends == high and not lags(standing, read, self._only_markers)
        except BreakglassError:
            return False

    def _only_markers(self, place: TopicPartition, start: int, end: int) -> bool:
        found = entries_of(self.ledger, place.topic)
        return all(not start <= offset < end for offset, _, _ in found[place])

    def faults_in(self, cut: Cut, logs: Entries) -> Faults:
        return miscounted(self.ledger, cut, logs)

    def faults(self) -> Faults:
        inputs = entries_of(self.ledger, self.ledger.input).values()
        values = [value for some in inputs for _, _, value in some if value is not None]
        assert values
        return _different(counted(self.ledger), totals(values))


def _different(found: Totals, wanted: Totals) -> Faults:
    names = sorted({*found, *wanted})
    return {
        name: (found.get(name), wanted.get(name))
        for name in names
        if found.get(name) != wanted.get(name)
    }


@dataclass(frozen=True, slots=True)
class BankWork:
    """confluent-kafka's transactions, which share an epoch, in a topology with a cycle."""

    bank: PlainBank
    at_least: int = 150

    @property
    def cluster(self) -> Cluster:
        return self.bank.cluster

    @property
    def group(self) -> str:
        return self.bank.group

    @property
    def topics(self) -> tuple[str, ...]:
        return (self.bank.topic,)

    def running(self, instances: int = 2) -> AbstractContextManager[Sequence[Killable]]:
        return self.bank.working(instances)

    @contextmanager
    def fed(self) -> Iterator[None]:
        """It is given orders before each try."""
        yield

    def ask(self) -> None:
        self.bank.order(ORDERS, HOPS)

    def processed(self, client: ReadClient) -> int:
        return sum(offsets_of(client, self.group, self.topics).values())

    def idle(self, client: ReadClient) -> bool:
        deadline = Deadline.after(SECONDS)
        try:
            logs = read_logs(client, self.topics, deadline)
            if logs.stable_ends(deadline) != logs.high_watermarks(deadline):
                return False
        except BreakglassError:
            return False
        read = {
            place.partition: offset
            for place, offset in offsets_of(client, self.group, self.topics).items()
        }
        return all(
            offset < read.get(number, 0)
            for number, some in self.bank.records().items()
            for offset, _ in some
        )

    def faults_in(self, cut: Cut, logs: Entries) -> Faults:
        records = {
            place.partition: [(offset, value) for offset, _, value in some]
            for place, some in logs.items()
        }
        offsets = {place.partition: offset for place, offset in cut.offsets.items()}
        return self._against(worked_off(self.bank, records, offsets))

    def faults(self) -> Faults:
        return self._against(books(accounts_of(self.bank)))

    def _against(self, found: Books) -> Faults:
        wanted = Books(self.bank.total, (), ())
        return {} if found == wanted else {"all accounts": (str(found), str(wanted))}


class Opening(Protocol):
    """Opens the applications of a soak, one for each round."""

    def __call__(self, name: str) -> Workload:
        """An application of that name, with topics that nobody else has."""


def streams(cluster: Cluster, folder: Path) -> Opening:
    """Kafka Streams, compiled once."""
    classes = folder / "classes"
    classes.mkdir(parents=True)
    classpath = compiled(classes)

    def opened(name: str) -> Workload:
        ledger = Ledger(cluster, f"ledger-{name}", classpath, folder / f"instances-{name}")
        return StreamsWork(ledger.open())

    return opened


def bank(cluster: Cluster, folder: Path) -> Opening:
    """The bank; it keeps nothing in *folder*."""
    del folder
    return lambda name: BankWork(PlainBank(cluster, f"bank-{name}").open())


WORKLOADS = {"streams": streams, "bank": bank}
