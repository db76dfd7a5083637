"""Runs a bank on real brokers: its topic, its customers, its members as processes of their own."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event, Thread
from typing import Any

from breakglass.services.checkpoint.kafka.groups import lags, read_named_groups
from breakglass.services.checkpoint.kafka.log_ends import read_logs
from breakglass.services.checkpoint.kafka.scanning import nothing_to_process
from breakglass.services.checkpoint.participant.application import Application, Guarantee
from breakglass.services.checkpoint.participant.membership import Membership
from breakglass.services.checkpoint.participant.participant import Participant, run
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.session import ReadAccess
from tests.kit.stamps import OUTSIDE
from tests.kit.waiting import within
from tests.lab.checkpoint.bank import OPENING, Account, Bank, deposit, nothing, order
from tests.lab.checkpoint.member_process import MemberProcess

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
SECONDS = 60.0
PATIENCE: dict[str, Any] = {"session_ms": 6_000, "transaction_ms": 6_000}
"""With members that are killed: the least that brokers allow."""
QUIET = 5
"""Steps without a record after which nothing is under way."""


@dataclass(slots=True)
class Branch:
    """A bank's topic on a cluster, and the group that works on it."""

    cluster: Cluster
    topic: str
    guarantee: Guarantee
    partitions: int = 6
    control: str = ""
    works_as: str = ""
    """The group, of a bank that was restored."""
    _orders: int = field(default=0, init=False)

    @property
    def group(self) -> str:
        return self.works_as or f"bank-of-{self.topic}"

    def restored(self, topic: str) -> Branch:
        """The same bank in another topic, with the same group."""
        return replace(self, topic=topic, works_as=self.group)

    @property
    def connection(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.cluster.bootstrap_servers}

    @property
    def total(self) -> int:
        """What all accounts have together."""
        return OPENING * self.partitions

    def open(self, brokers: tuple[int, ...] = (1,), *, start: int = 0) -> Branch:
        """Make the topic, and give each account its money; logs begin at offset *start*."""
        turns = [
            [brokers[(number + shift) % len(brokers)] for shift in range(len(brokers))]
            for number in range(self.partitions)
        ]
        create_topic(self.cluster, self.topic, turns)
        if start:
            self.put(
                [(number, nothing()) for number in range(self.partitions) for _ in range(start)]
            )
            self.delete_before(dict.fromkeys(range(self.partitions), start))
        self.put(
            [(number, deposit(f"opening-{number}", OPENING)) for number in range(self.partitions)]
        )
        return self

    def delete_before(self, starts: Mapping[int, int]) -> None:
        """Have the log of each partition begin at that offset, as retention does."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient(self.connection, logger=LOG)
        asked = [TopicPartition(self.topic, number, start) for number, start in starts.items()]
        for partition, future in admin.delete_records(asked).items():
            assert future.result(SECONDS).low_watermark == starts[partition.partition]

    def order(self, count: int, hops: int = 40) -> None:
        """Have customers give *count* orders, dealt out over the partitions."""
        numbers = range(self._orders, self._orders + count)
        self._orders += count
        self.put(
            [
                (number % self.partitions, order(f"{self.topic}.{number}", 1 + number % 7, hops))
                for number in numbers
            ]
        )

    def put(
        self, records: list[tuple[int, bytes]], headers: Sequence[tuple[str, bytes]] = OUTSIDE
    ) -> None:
        """Write *records*, by default from outside, each into its partition."""
        from confluent_kafka import Producer

        producer = Producer({**self.connection, "enable.idempotence": True}, logger=LOG)
        for partition, value in records:
            producer.produce(self.topic, value, partition=partition, headers=list(headers))
            producer.poll(0)
        assert producer.flush(SECONDS) == 0

    def put_torn(self, count: int) -> None:
        """Write transactions over two partitions by a producer that is no participant."""
        from confluent_kafka import Producer

        patience = {"transaction.timeout.ms": int(1000 * within(6))}
        settings = {"transactional.id": f"plain-{self.topic}", **patience}
        producer = Producer({**self.connection, **settings}, logger=LOG)
        producer.init_transactions(SECONDS)
        for _ in range(count):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce(self.topic, nothing(), partition=partition)
                producer.flush(SECONDS)
            producer.commit_transaction(SECONDS)

    def membership(self, member: str) -> Membership:
        return Membership(
            self.connection,
            self.group,
            (self.topic,),
            member,
            self.guarantee,
            self.control,
            **PATIENCE,
        )

    @contextmanager
    def working(self, members: int = 2) -> Iterator[list[Member]]:
        """Members at work, ended with the block."""
        found = [Member(self, f"m{number}") for number in range(members)]
        try:
            yield found
        finally:
            for member in found:
                member.end()

    @contextmanager
    def at_work(self, application: Application) -> Iterator[None]:
        """One member in a thread of this process, which works as *application*."""
        stop = Event()
        member = Thread(
            target=run, args=(self.membership("only"), application, stop.is_set), daemon=True
        )
        member.start()
        try:
            yield
        finally:
            stop.set()
            member.join(SECONDS)

    def settle(self, saves: bool = False) -> list[Account]:
        """Have one member in this process work until nothing is under way; all accounts then."""
        bank = Bank(self.partitions, saves=saves)
        give_up = time.monotonic() + SECONDS
        quiet = 0
        with Participant(self.membership("last"), bank) as participant:
            while quiet < QUIET or len(bank.accounts) < self.partitions:
                assert time.monotonic() < give_up, f"{len(bank.accounts)} accounts are open"
                quiet = 0 if participant.step() or not self._come_to_the_end() else quiet + 1
            return list(bank.accounts.values())

    def _come_to_the_end(self) -> bool:
        """Whether no transaction is open, which would hide what lies behind it, and all is read."""
        with self.reading() as client:
            deadline = Deadline.after(SECONDS)
            logs = read_logs(client, (self.topic,), deadline)
            ends = logs.stable_ends(deadline)
            if logs.high_watermarks(deadline) != ends:
                return False
            standing = read_named_groups(client, (self.group,), ends, deadline)
            return not lags(standing, ends, partial(nothing_to_process, logs))

    @contextmanager
    def reading(self) -> Iterator[ReadClient]:
        """A client that reads."""
        options = ConnectionOptions(bootstrap_server=self.cluster.bootstrap_servers)
        with ReadAccess(connection_settings(options)).reading() as client:
            yield client


@dataclass(slots=True)
class Member(MemberProcess):
    """A member of the group."""

    branch: Branch
    name: str
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def launched(self) -> subprocess.Popen[bytes]:
        branch = self.branch
        arguments = [branch.cluster.bootstrap_servers, branch.topic, branch.guarantee, branch.group]
        rest = [self.name, branch.control, str(branch.partitions), str(os.getpid())]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.lab.checkpoint.branch", *arguments, *rest]
        )


def _main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("servers", "topic", "guarantee", "group", "member", "control"):
        parser.add_argument(name)
    parser.add_argument("partitions", type=int)
    parser.add_argument("parent", type=int)
    given = parser.parse_args()
    stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    connection = {"bootstrap.servers": given.servers}
    membership = Membership(
        connection,
        given.group,
        (given.topic,),
        given.member,
        Guarantee(given.guarantee),
        given.control,
        **PATIENCE,
    )

    def ended() -> bool:
        return stop.is_set() or os.getppid() != given.parent

    run(membership, Bank(given.partitions), ended, lambda why: print(why, file=sys.stderr))


if __name__ == "__main__":
    _main()
