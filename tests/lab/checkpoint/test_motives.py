"""What the ZEP wants checkpoints for: deployments reach all partitions, messages correlate once."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from breakglass.services.checkpoint.participant.application import (
    Application,
    Guarantee,
    Input,
    Output,
)
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.model import TopicPartition
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.audit import held, work
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.taking import Taking

pytestmark = pytest.mark.slow

TIMES = 3


class Stateless:
    """What all applications here have in common."""

    def begin(self, partition: TopicPartition, state: bytes | None) -> None:
        """Nothing is saved."""

    def replay(self, record: Input) -> None:
        for _ in self.process(record):
            pass

    def process(self, record: Input) -> Iterable[Output]:
        raise NotImplementedError

    def save(self, partition: TopicPartition) -> bytes | None:
        return None

    def end(self, partition: TopicPartition) -> None:
        """Nothing is kept."""


class Deployments(Stateless):
    """The first partition is told of new versions, and tells all others."""

    def __init__(self, partitions: int) -> None:
        self.versions = dict.fromkeys(range(partitions), 0)

    def process(self, record: Input) -> Iterable[Output]:
        number, value = record.partition.partition, record.value or b""
        if not value.startswith(b"version "):
            return
        version = int(value.split()[1])
        self.versions[number] = max(self.versions[number], version)
        if number == 0:
            for other in self.versions:
                if other:
                    yield Output(record.partition.topic, value, partition=other)


class Correlation(Stateless):
    """Any partition publishes messages; the one that a message belongs to correlates it."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.published: list[int] = []
        self.correlated: list[int] = []

    def process(self, record: Input) -> Iterable[Output]:
        value = record.value or b""
        if value.startswith(b"publish "):
            message = int(value.split()[1])
            self.published.append(message)
            yield Output(
                record.partition.topic,
                b"correlate %d" % message,
                partition=message * 7 % self.partitions,
            )
        elif value.startswith(b"correlate "):
            self.correlated.append(int(value.split()[1]))


def restored(taking: Taking, bank: Branch, id: int, application: Application) -> None:
    """Have *application* go on with checkpoint *id* until nothing is under way."""
    content = held(taking.store, id)
    offsets = {number: content.offset(bank.group, number) for number in content.prefixes}
    least_once = bank.guarantee is Guarantee.AT_LEAST_ONCE
    logs = (content.prefixes, content.channels)
    work(application, *logs, offsets, bank.group, bank.topic, passes_over=least_once)


def test_after_a_restore_every_partition_has_the_same_version(bank: Branch, taking: Taking) -> None:
    live = Deployments(bank.partitions)
    versions = iter(range(1, 10_000))

    def deploy(count: int) -> None:
        bank.put([(0, b"version %d" % next(versions)) for _ in range(count)])

    with bank.at_work(live):
        for _ in range(TIMES):
            deploy(50)
            wait_until(lambda: live.versions[0] > 0, "a version")
            assert taking.take(bank).status is Status.COMPLETED
    for id in taking.store.ids():
        found = Deployments(bank.partitions)
        restored(taking, bank, id, found)
        assert len(set(found.versions.values())) == 1
        assert found.versions[0] > 0


def test_after_a_restore_every_message_is_correlated_once(bank: Branch, taking: Taking) -> None:
    live = Correlation(bank.partitions)
    messages = iter(range(10_000))

    def publish(count: int) -> None:
        some = [next(messages) for _ in range(count)]
        bank.put([(number % bank.partitions, b"publish %d" % number) for number in some])

    with bank.at_work(live):
        for _ in range(TIMES):
            publish(200)
            wait_until(lambda: bool(live.correlated), "a message")
            assert taking.take(bank).status is Status.COMPLETED
    for id in taking.store.ids():
        found = Correlation(bank.partitions)
        restored(taking, bank, id, found)
        assert found.published
        assert sorted(found.correlated) == sorted(found.published)
