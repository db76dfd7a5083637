"""Whatever has to be left out lies after the floors, in whatever order a cluster does its work.

A cluster in memory: producers write and commit side by side, markers come to each log whenever they
do, and a take reads one log at a time in between. What it reads from its floors on has to be all
that a decision needs.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

import pytest

from breakglass.services.checkpoint.protocol.transactions import (
    ENDINGS,
    LoggedTransaction,
    OffsetCommit,
    TransactionName,
    TransactionPart,
    left_out,
)

LOGS, PRODUCERS, STEPS, SEEDS = (1, 2, 3), 4, 120, 400
COMMITS = 0
"""The log of committed offsets."""


@dataclass
class Running:
    """A transaction that is not complete yet."""

    name: TransactionName
    firsts: dict[int, int] = field(default_factory=dict)
    records: dict[int, list[int]] = field(default_factory=dict)
    commits: list[OffsetCommit] = field(default_factory=list)
    markers: dict[int, int] = field(default_factory=dict)
    decided: bool = False

    @property
    def logs(self) -> set[int]:
        return set(self.firsts)

    @property
    def logged(self) -> LoggedTransaction:
        parts = {
            log: TransactionPart(tuple((at, at) for at in some), self.markers[log])
            for log, some in self.records.items()
            if log != COMMITS
        }
        return LoggedTransaction(self.name, parts, tuple(self.commits))


class MemoryCluster:
    """Logs of which only the ends and the open transactions matter."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ends = dict.fromkeys((COMMITS, *LOGS), 0)
        self.running = [Running(TransactionName(number, 0)) for number in range(PRODUCERS)]
        self.done: list[Running] = []

    def stable(self, log: int) -> int:
        """The offset before which no transaction is open in *log*."""
        firsts = [
            one.firsts[log] for one in self.running if log in one.firsts and log not in one.markers
        ]
        return min(firsts, default=self.ends[log])

    def step(self, *, ending: bool = False) -> None:
        """Some producer writes, commits or gets a marker."""
        number = self.random.randrange(PRODUCERS)
        one = self.running[number]
        if one.decided:
            log = self.random.choice(sorted(one.logs - one.markers.keys()))
            one.markers[log] = self._append(log)
            if one.logs == one.markers.keys():
                self.done.append(one)
                self.running[number] = Running(one.name._replace(epoch=one.name.epoch + 1))
        elif one.logs and (ending or self.random.random() < 0.25):
            one.decided = True
        elif not ending:
            self._write(one)

    def _write(self, one: Running) -> None:
        log = self.random.choice(LOGS)
        if self.random.random() < 0.3:
            # It has processed what its consumer was given: committed records alone.
            at = self._append(COMMITS)
            one.firsts.setdefault(COMMITS, at)
            offset = self.random.randint(0, self.stable(log))
            one.commits.append(OffsetCommit(COMMITS, at, "app", log, offset))
        else:
            at = self._append(log)
            one.firsts.setdefault(log, at)
            one.records.setdefault(log, []).append(at)

    def _append(self, log: int) -> int:
        self.ends[log] += 1
        return self.ends[log] - 1


@dataclass
class Taken:
    """What a take has read."""

    floors: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


def take(cluster: MemoryCluster, taken: Taken, waits: int) -> Generator[None, None, None]:
    """Read as a take does, one log at a time; anything may happen where it yields."""
    for log in (COMMITS, *LOGS):
        taken.floors[log] = cluster.stable(log)
        yield
    for _ in range(waits):
        high = {}
        for log in LOGS:
            high[log] = cluster.ends[log]
            yield
        for log in LOGS:
            while cluster.stable(log) < high[log]:
                yield
    for log in LOGS:
        taken.ends[log] = cluster.ends[log]
        yield


def played(seed: int, waits: int) -> tuple[Taken, list[LoggedTransaction]]:
    """A take in the midst of work; all transactions in the end."""
    cluster, taken = MemoryCluster(seed), Taken()
    for _ in range(cluster.random.randrange(STEPS)):
        cluster.step()
    taking = take(cluster, taken, waits)
    under_way = True
    while under_way:
        for _ in range(cluster.random.randrange(4)):
            cluster.step()
        under_way = next(taking, "ended") != "ended"
    for _ in range(STEPS):
        cluster.step()
    while any(one.logs for one in cluster.running):
        cluster.step(ending=True)
    return taken, [one.logged for one in cluster.done]


def before_the_floors(waits: int) -> Iterator[int]:
    """The seeds whose left out transactions have something before the floors."""
    for seed in range(SEEDS):
        taken, transactions = played(seed, waits)
        out = left_out(taken.ends, transactions)
        for one in transactions:
            if one.name in out:
                offsets = [(log, part.first) for log, part in one.parts.items()]
                offsets += [(COMMITS, commit.position) for commit in one.commits]
                if any(at < taken.floors[log] for log, at in offsets):
                    yield seed
                    break


def test_h15_nothing_that_is_left_out_lies_before_the_floors() -> None:
    assert list(before_the_floors(ENDINGS)) == []


@pytest.mark.parametrize("waits", range(ENDINGS))
def test_h15_transactions_have_to_end_twice(waits: int) -> None:
    assert list(before_the_floors(waits))
