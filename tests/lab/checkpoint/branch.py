"""Runs a bank on real brokers: its topic, its customers, its members as processes of their own."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event, Thread
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from breakglass.services.checkpoint.kafka.logs import nothing_to_process, read_logs
from breakglass.services.checkpoint.kafka.owners import lags, read_named_groups
from breakglass.services.checkpoint.participant.participant import (
    Application,
    Guarantee,
    Membership,
    run,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from tests.kit.clusters import access_to
from tests.kit.commits import commit_offsets
from tests.kit.stamps import OUTSIDE
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.asking import delete_topic, transactional
from tests.lab.checkpoint.bank import OPENING, Account, Bank, deposit, nothing, orders
from tests.lab.checkpoint.member_process import MemberProcess, until_the_end

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
SECONDS = DEADLINE_SECONDS
PATIENCE: dict[str, Any] = {"session_ms": 30_000, "transaction_ms": 120_000}
"""A busy machine may stop a member for long; one that was killed comes back under its name."""


def soon() -> Deadline:
    """A deadline that only ends a hang."""
    return Deadline.after(SECONDS)


def turns(
    cluster: Cluster, partitions: int, brokers: Sequence[int] | None = None
) -> list[list[int]]:
    """The replicas of each partition: every one of *brokers* (all) leads in its turn."""
    ids = brokers or [broker.id for broker in cluster.brokers]
    return [
        [ids[(number + shift) % len(ids)] for shift in range(len(ids))]
        for number in range(partitions)
    ]


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

    @classmethod
    def plain(cls, cluster: Cluster, topic: str) -> Branch:
        """A topic of two partitions that no participant works on."""
        return cls(cluster, topic, Guarantee.EXACTLY_ONCE, 2, f"control-{topic}")

    @property
    def group(self) -> str:
        return self.works_as or f"bank-of-{self.topic}"

    def restored(self, topic: str) -> Branch:
        """The same bank in another topic, with the same group."""
        return replace(self, topic=topic, works_as=self.group)

    @property
    def at_least_once(self) -> bool:
        """Whether its members may write twice, and pass over what is there twice."""
        return self.guarantee is Guarantee.AT_LEAST_ONCE

    @property
    def connection(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.cluster.bootstrap_servers}

    @property
    def total(self) -> int:
        """What all accounts have together."""
        return OPENING * self.partitions

    def options(self, *more: str, topic: str = "", serving: bool = False) -> tuple[str, ...]:
        """What commands are told of a checkpoint of it, and the consent of those that take one."""
        group = f"{self.group}={self.guarantee}"
        scope = ("--topics", topic or self.topic, "--group", group, "--control-topic", self.control)
        consent = () if serving else ("--consent", f"write {self.partitions} markers")
        return (*scope, "--write", *consent, *more)

    def open(self, brokers: tuple[int, ...] = (1,), *, start: int = 0) -> Branch:
        """Make the topic, and give each account its money; logs begin at offset *start*."""
        create_topic(self.cluster, self.topic, turns(self.cluster, self.partitions, brokers))
        if start:
            self.put(
                [(number, nothing()) for number in range(self.partitions) for _ in range(start)]
            )
            self.delete_before(dict.fromkeys(range(self.partitions), start))
        self.put(
            [(number, deposit(f"opening-{number}", OPENING)) for number in range(self.partitions)]
        )
        return self

    def admin(self) -> AdminClient:
        return AdminClient(self.connection, logger=LOG)

    def delete(self) -> None:
        delete_topic(self.cluster, self.topic)

    def commit(self, group: str, offset: int = 1) -> None:
        """Commit an offset of the first partition for an ordinary *group*."""
        with closing(Consumer({**self.connection, "group.id": group}, logger=LOG)) as member:
            commit_offsets(member, [Place(self.topic, 0, offset)])

    @contextmanager
    def transaction(self, name: str) -> Iterator[Producer]:
        """A transaction of somebody else, begun; it is aborted unless the block commits it."""
        named = f"{name}-{self.topic}"
        producer = transactional(self.cluster, named, transaction_timeout_ms=600_000)
        producer.begin_transaction()
        try:
            yield producer
        finally:
            with suppress(KafkaException):
                producer.abort_transaction(SECONDS)

    def delete_before(self, starts: Mapping[int, int]) -> None:
        """Have the log of each partition begin at that offset, as retention does."""
        asked = [Place(self.topic, number, start) for number, start in starts.items()]
        admin = self.admin()
        for partition, future in admin.delete_records(asked).items():
            assert future.result(SECONDS).low_watermark == starts[partition.partition]

    def order(self, count: int, hops: int = 40) -> None:
        """Have customers give *count* orders, dealt out over the partitions."""
        self.put(orders(self.topic, self.partitions, self._orders, count, hops))
        self._orders += count

    def put(
        self, records: list[tuple[int, bytes]], headers: Sequence[tuple[str, bytes]] = OUTSIDE
    ) -> None:
        """Write *records*, by default from outside, each into its partition."""
        producer = Producer({**self.connection, "enable.idempotence": True}, logger=LOG)
        for partition, value in records:
            producer.produce(self.topic, value, partition=partition, headers=list(headers))
            producer.poll(0)
        assert producer.flush(SECONDS) == 0

    def put_torn(self, count: int) -> None:
        """Write transactions over two partitions by a producer that is no participant."""
        producer = transactional(self.cluster, f"plain-{self.topic}")
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

    def working(self, members: int = 2) -> AbstractContextManager[list[Member]]:
        """Members at work, ended with the block."""
        return until_the_end([Member(self, f"m{number}") for number in range(members)])

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
        bank, found = Bank(self.partitions, saves=saves), list[Account]()
        looks: list[Mapping[TopicPartition, int]] = []
        processed = -1
        with self.reading() as client:

            def settled() -> bool:
                """Between two looks nothing came, and at both all was read."""
                nonlocal processed
                if len(looks) > 1:
                    return True
                if processed != bank.processed or len(bank.accounts) < self.partitions:
                    processed = bank.processed
                    looks.clear()
                    return False
                ends = self._read_ends(client)
                if ends is None:
                    looks.clear()
                    return False
                if looks and looks[0] != ends:
                    looks.clear()
                looks.append(ends)
                found[:] = bank.accounts.values()
                return len(looks) > 1

            run(self.membership("last"), bank, settled, lambda why: print(why, file=sys.stderr))
        return found

    def _read_ends(self, client: ReadClient) -> Mapping[TopicPartition, int] | None:
        """The ends of the logs, if the group has read all, and no open transaction hides more."""
        logs = read_logs(client, (self.topic,), soon())
        ends = logs.stable_ends(soon())
        if logs.high_watermarks(soon()) != ends:
            return None
        standing = read_named_groups(client, (self.group,), ends, soon())
        return None if lags(standing, ends, partial(nothing_to_process, logs)) else ends

    @contextmanager
    def reading(self) -> Iterator[ReadClient]:
        """A client that reads."""
        with access_to(self.cluster).reading() as client:
            yield client


@dataclass(slots=True)
class Member(MemberProcess):
    """A member of the group."""

    branch: Branch
    name: str
    process: subprocess.Popen[bytes] = field(init=False)

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
