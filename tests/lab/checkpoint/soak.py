"""Checkpoint after checkpoint of a bank at work, under kill -9 of brokers, members and workers.

`make soak` runs SOAK_CHECKPOINTS of them, a hundred; the tests a few.
"""

import argparse
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from breakglass.services.checkpoint.participant.participant import Guarantee
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore, this_machine
from breakglass.services.checkpoint.store.documents import Level
from breakglass.services.errors import BreakglassError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.session import Spark
from tests.kit.clusters import access_to
from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.lab.checkpoint.audit import audited, held
from tests.lab.checkpoint.bank import Books
from tests.lab.checkpoint.branch import Branch, Member
from tests.lab.checkpoint.commands import Program
from tests.lab.checkpoint.taking import Taking

DRAIN_SECONDS = DEADLINE_SECONDS
ORDERS, HOPS = 40, 40
OF_A_BANK = 12
"""Checkpoints, of which the last ones are copied by Spark: its logs have grown by then."""
SLOWLY = "20kB/s"
"""How fast a worker copies that is to be killed: it is killed before it ends."""


class Victim(StrEnum):
    """What is killed while a checkpoint is taken."""

    BROKER = "broker"
    MEMBER = "member"
    WORKER = "worker"


CYCLE = (
    (Level.COORDINATED, Victim.BROKER),
    (Level.COORDINATED, Victim.MEMBER),
    (Level.COORDINATED, Victim.WORKER),
    (Level.VERIFIED, Victim.WORKER),
    (Level.COORDINATED, Victim.BROKER),
    (Level.COORDINATED, Victim.MEMBER),
    (Level.COORDINATED, Victim.WORKER),
    (Level.VERIFIED, Victim.BROKER),
    (Level.COORDINATED, Victim.WORKER),
    (Level.VERIFIED, Victim.MEMBER),
)
"""Ten rounds, and then again."""


@dataclass(frozen=True, slots=True)
class Round:
    """One checkpoint, and how it ended."""

    id: int
    level: Level
    victim: Victim
    half: int
    """Partitions whose copy a killed worker left half."""
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

    def __str__(self) -> str:
        killed = f"killed {self.victim}"
        if self.victim is Victim.WORKER:
            killed += f" with {self.half} half"
        verdict = "" if self.consistent else f"INCONSISTENT {self.books} of {self.total}"
        ended = f"{self.id:>4}  {self.status:<9}  {killed:<25}"
        return f"{self.level:<11}  {ended}  {self.reason}{verdict}".rstrip()


@dataclass(frozen=True, slots=True)
class Soak:
    """A bank on a cluster, whose checkpoints go into one store."""

    cluster: Cluster
    bank: Branch
    store: BackupStore
    program: Program

    def rounds(self, numbers: Sequence[int]) -> Iterator[Round]:
        """A checkpoint for each of *numbers*, with something killed in each."""
        cluster, bank = self.cluster, self.bank
        access = access_to(cluster)
        with access.reading() as client, Spark() as spark, bank.working(2) as members:
            folder = self.program.state
            taking = Taking(access, client, self.store, spark, folder, drain_seconds=DRAIN_SECONDS)
            for number in numbers:
                bank.order(ORDERS, HOPS)
                yield self._round(taking, number, members[number % 2])

    def _round(self, taking: Taking, number: int, member: Member) -> Round:
        level, victim = CYCLE[number % len(CYCLE)]
        broker, half = self.cluster.brokers[number % 3], 0
        with taking.parts(self.bank, level) as (coordinator, finisher):
            id = coordinator.take()
            assert isinstance(id, int)
            match victim:
                case Victim.BROKER:
                    broker.kill()
                case Victim.MEMBER:
                    member.kill()
                    member.start()
                case Victim.WORKER:
                    half = self._kill_worker(id)
            with suppress(BreakglassError):
                finisher.finish(id)
        if victim is Victim.BROKER:
            broker.start()
            self.cluster.wait_ready()
        return self._ended(id, level, victim, half)

    def _kill_worker(self, id: int) -> int:
        """Have a process finish the checkpoint and kill it at its first file; what it left half."""
        control = ("--control-topic", self.bank.control)
        how = ("--drain", f"{DRAIN_SECONDS:g}", "--max-rate", SLOWLY)
        with self.program.running("finish", str(id), *control, *how) as worker:
            wait_until(lambda: worker.ended or self._begun(id), "a file of a copy")
            worker.kill()
        found = self.store.read(id)
        assert found is not None
        partitions = [
            partition.number for partition in found.partitions if partition.status is Status.ONGOING
        ]
        half = sum(self._begun(id, number) for number in partitions)
        assert half or found.status is Status.FAILED, worker.said
        return half

    def _begun(self, id: int, number: int | None = None) -> bool:
        """Whether a file of the checkpoint is there, or of one of its partitions."""
        within = "*" if number is None else str(number)
        files = (self.program.store / "contents" / str(id)).glob(f"{within}/*/segments/**/*")
        return any(file.is_file() for file in files)

    def _ended(self, id: int, level: Level, victim: Victim, half: int) -> Round:
        bank, found = self.bank, self.store.read(id)
        assert found is not None
        failures = (partition.failure for partition in found.partitions)
        of_partition = next((failure for failure in failures if failure is not None), "")
        reason = of_partition if found.failed is None else found.failed.reason
        made = None
        if found.status is Status.COMPLETED:
            content = held(self.store, id)
            made = audited(content, bank.group, bank.topic, passes_over=bank.at_least_once)
            self.store.delete(id)
        return Round(id, level, victim, half, found.status, reason, made, bank.total)


def rounds(cluster: Cluster, guarantee: Guarantee, count: int, folder: Path) -> Iterator[Round]:
    """So many checkpoints, of one bank after the other."""
    for first in range(0, count, OF_A_BANK):
        name = f"bank-{uuid.uuid4().hex[:8]}"
        bank = Branch(cluster, name, guarantee, 3, f"control-{name}").open((1, 2, 3))
        program = Program(cluster.bootstrap_servers, folder / f"store-{name}", folder / "state")
        # The commands and this process are one machine.
        store = BackupStore(str(program.store), machine=partial(this_machine, program.own_state))
        soak = Soak(cluster, bank, store, program)
        yield from soak.rounds(range(first, min(first + OF_A_BANK, count)))


def main() -> int:
    """Print each round; returns 1 if one was inconsistent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=int, default=100)
    given = parser.parse_args()
    wrong = completed = 0
    with (
        TemporaryDirectory(prefix="breakglass-soak-") as folder,
        Cluster.up(Path(folder) / "cluster", tethered=True) as cluster,
    ):
        for guarantee in Guarantee:
            for round_ in rounds(cluster, guarantee, given.checkpoints // 2, Path(folder)):
                print(f"{guarantee:<13}  {round_}", flush=True)
                wrong += not round_.consistent
                completed += round_.status is Status.COMPLETED
    print(f"{completed} completed, {wrong} inconsistent")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
