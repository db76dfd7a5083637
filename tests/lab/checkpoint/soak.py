"""Checkpoint after checkpoint of a bank at work, under kill -9 of brokers, members and workers.

`make soak` runs SOAK_CHECKPOINTS of them, a hundred; the tests a few.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from services.checkpoint.finishing import Finisher
from services.checkpoint.participant.application import Guarantee
from services.checkpoint.protocol.values import CopyId, Status
from services.checkpoint.store.backup_store import BackupStore
from services.connection.sources import ConnectionOptions, connection_settings
from services.errors import BreakglassError
from services.lab.cluster import Cluster
from services.pipeline.session import Spark
from services.session import Power, ReadAccess
from tests.lab.checkpoint.audit import audited, held
from tests.lab.checkpoint.bank import Books
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.taking import Taking

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
DRAIN_SECONDS = 120.0
ORDERS, HOPS = 40, 40


class Killed(Exception):
    """A worker is no more."""


@dataclass(frozen=True, slots=True)
class Round:
    """One checkpoint, and how it ended."""

    id: int
    status: Status
    reason: str
    books: Books | None
    """Of one that was completed, after everything in transit has come in."""
    total: int
    """That it has to be."""

    @property
    def consistent(self) -> bool:
        """Whether nothing was lost or doubled; of one that has failed nothing is promised."""
        if self.books is None:
            return True
        return self.books == Books(self.total, (), ())


def rounds(cluster: Cluster, guarantee: Guarantee, count: int, folder: Path) -> Iterator[Round]:
    """So many checkpoints, one in three of them with a broker, a member or a worker killed."""
    name = f"bank-{uuid.uuid4().hex[:8]}"
    bank = Branch(cluster, name, guarantee, 3, f"control-{name}").open((1, 2, 3))
    options = ConnectionOptions(bootstrap_server=cluster.bootstrap_servers)
    access = ReadAccess(connection_settings(options))
    store = BackupStore(str(folder / f"store-{name}"))
    with access.reading() as client, Spark() as spark, bank.working(2) as members:
        taking = Taking(client, Power(access), store, spark, DRAIN_SECONDS)
        for number in range(count):
            bank.order(ORDERS, HOPS)
            broker, member = cluster.brokers[number % 3], members[number % 2]
            with taking.parts(bank) as (coordinator, finisher):
                id = coordinator.take()
                assert isinstance(id, int)
                if number % 3 == 0:
                    broker.kill()
                if number % 3 == 1:
                    member.kill()
                    member.start()
                if number % 3 == 2:
                    _die_while_copying(finisher, id)
                with suppress(BreakglassError):
                    finisher.finish(id)
            if number % 3 == 0:
                broker.start()
                cluster.wait_ready()
            yield _round(store, id, bank)


def _die_while_copying(finisher: Finisher, id: int) -> None:
    """Have the worker end behind its first copy, and leave part of the next one."""

    def die(number: int, status: Status) -> None:
        raise Killed

    with suppress(Killed, BreakglassError):
        finisher.finish(id, die)
    found = finisher.store.read(id)
    for part in found.partitions if found is not None else ():
        if part.status is Status.ONGOING:
            copy = CopyId(id, part.number, finisher.node)
            finisher.store.copies.put(copy, "segments/left", b"half of a copy")


def _round(store: BackupStore, id: int, bank: Branch) -> Round:
    found = store.read(id)
    assert found is not None
    failures = (one.failure for one in found.partitions)
    of_partition = next((one for one in failures if one is not None), "")
    reason = of_partition if found.failed is None else found.failed.reason
    least_once = bank.guarantee is Guarantee.AT_LEAST_ONCE
    made = None
    if found.status is Status.COMPLETED:
        made = audited(held(store, id), bank.group, bank.topic, passes_over=least_once)
        store.delete(id)
    return Round(id, found.status, reason, made, bank.total)


def main() -> int:
    """Print each round; returns 1 if one was inconsistent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=int, default=100)
    given = parser.parse_args()
    wrong = 0
    with (
        TemporaryDirectory(prefix="breakglass-soak-") as folder,
        Cluster.up(Path(folder) / "cluster", overrides=SETTINGS, tethered=True) as cluster,
    ):
        for guarantee in Guarantee:
            for one in rounds(cluster, guarantee, given.checkpoints // 2, Path(folder)):
                print(f"{guarantee}  {one.id:>4}  {one.status}  {one.reason}", flush=True)
                wrong += not one.consistent
    print(f"{wrong} inconsistent")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
