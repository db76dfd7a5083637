"""A bank whose accounts are partitions: money goes from one to another as messages.

An order in a partition takes money from its account and has two outputs in another one: the
deposit, and the next order there, as long as it has hops. What every account has, and what is in
deposits under way, is the same total at all times.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from breakglass.services.checkpoint.participant.participant import Input, Output
from breakglass.services.model import TopicPartition

OPENING = 1_000
"""What each account is given at first, by a deposit from outside."""


def deposit(id: str, amount: int) -> bytes:
    return json.dumps({"deposit": id, "amount": amount}).encode()


def order(id: str, amount: int, hops: int) -> bytes:
    return json.dumps({"order": id, "amount": amount, "hops": hops}).encode()


def orders(
    name: str, partitions: int, first: int, count: int, hops: int
) -> list[tuple[int, bytes]]:
    """*count* orders of customers from number *first* on, dealt out over the partitions."""
    return [
        (number % partitions, order(f"{name}.{number}", 1 + number % 7, hops))
        for number in range(first, first + count)
    ]


def nothing() -> bytes:
    """A record that does nothing."""
    return b"{}"


@dataclass(slots=True)
class Account:
    """One partition's state: its balance, and the deposits that it has got."""

    balance: int = 0
    got: dict[str, int] = field(default_factory=dict)
    """How often each deposit was taken: once, unless something doubled it."""
    sent: set[str] = field(default_factory=set)


class Bank:
    """The application: accounts of the partitions that this member owns."""

    def __init__(self, partitions: int, *, saves: bool = False) -> None:
        self.partitions = partitions
        self.saves = saves
        self.accounts: dict[TopicPartition, Account] = {}
        self.processed = 0

    def begin(self, partition: TopicPartition, state: bytes | None) -> None:
        self.accounts[partition] = Account() if state is None else _loaded(state)

    def replay(self, record: Input) -> None:
        for _ in self.process(record):
            pass

    def process(self, record: Input) -> Iterable[Output]:
        self.processed += 1
        account = self.accounts[record.partition]
        body: dict[str, Any] = json.loads(record.value or b"{}")
        if "deposit" in body:
            account.balance += body["amount"]
            account.got[body["deposit"]] = account.got.get(body["deposit"], 0) + 1
            return []
        if "order" not in body:
            return []
        return self._ordered(record.partition, account, body)

    def _ordered(
        self, partition: TopicPartition, account: Account, body: dict[str, Any]
    ) -> list[Output]:
        id, hops = body["order"], body["hops"]
        amount = min(body["amount"], account.balance)
        account.balance -= amount
        account.sent.add(id)
        to = (partition.partition + 1 + hops % (self.partitions - 1)) % self.partitions
        outputs = [Output(partition.topic, deposit(id, amount), partition=to)]
        if hops:
            following = order(f"{id}.{hops}", body["amount"], hops - 1)
            outputs.append(Output(partition.topic, following, partition=to))
        return outputs

    def save(self, partition: TopicPartition) -> bytes | None:
        return _saved(self.accounts[partition]) if self.saves else None

    def end(self, partition: TopicPartition) -> None:
        del self.accounts[partition]


def _saved(account: Account) -> bytes:
    body = {"balance": account.balance, "got": account.got, "sent": sorted(account.sent)}
    return json.dumps(body).encode()


def _loaded(state: bytes) -> Account:
    body = json.loads(state)
    return Account(body["balance"], body["got"], set(body["sent"]))


@dataclass(frozen=True, slots=True)
class Books:
    """All accounts of a bank that has nothing under way any more."""

    total: int
    doubled: tuple[str, ...]
    """Deposits that were taken more than once."""
    lost: tuple[str, ...]
    """Orders that took money which no account has got."""


def books(accounts: Iterable[Account]) -> Books:
    """What *accounts*, of all partitions, come to."""
    held = list(accounts)
    got: dict[str, int] = {}
    for account in held:
        for id, times in account.got.items():
            got[id] = got.get(id, 0) + times
    sent = {id for account in held for id in account.sent}
    doubled = tuple(sorted(id for id, times in got.items() if times > 1))
    return Books(
        sum(account.balance for account in held), doubled, tuple(sorted(sent - got.keys()))
    )
