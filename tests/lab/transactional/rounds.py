"""One round of a soak: an application at work, kill -9, a checkpoint, and its restore.

A checkpoint is taken twice at the same moment, `transactional` and `vector`, while processes are
killed. Both are judged by what their copies hold. Then the first one is restored, the application
continues from it, and is judged by what it has put out.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.checkpoint.kafka.holding import RetentionHolder
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.documents import GroupPolicy, Level
from breakglass.services.errors import BreakglassError
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from tests.kit.waiting import wait_until
from tests.lab.asking import delete_topic
from tests.lab.checkpoint.taking import Taking
from tests.lab.transactional.kit import (
    CYCLE,
    SECONDS,
    Faults,
    Victim,
    found_in,
    lowered,
    stored,
    taking_on,
    wait_for_the_end,
)
from tests.lab.transactional.loop import LoopMember, PlainBank
from tests.lab.transactional.streams import Instance, Ledger, compiled

TRIES = 5
Workload = Ledger | PlainBank
"""An application on a cluster, with topics and a group of its own."""
Process = Instance | LoopMember


@dataclass(frozen=True, slots=True)
class Round:
    """A checkpoint of each level, and what became of them."""

    workload: str
    seed: int
    victim: Victim
    refused: tuple[str, ...]
    """Why earlier tries were refused or have failed."""
    lowered: int
    """Offsets by which the ends were lowered."""
    left_out: int
    """Transactions that were left out."""
    wrong: Faults
    """Of the transactional copies; must be empty."""
    raw: Faults
    """Of the vector's copies."""
    continued: Faults
    """Of the restored application; must be empty."""

    @property
    def consistent(self) -> bool:
        return not self.wrong and not self.continued

    def __str__(self) -> str:
        verdict = "whole" if self.consistent else f"WRONG {self.wrong} {self.continued}"
        raw = "vector wrong" if self.raw else "vector right"
        tries = "".join(f"\n    refused: {reason}" for reason in self.refused)
        return (
            f"{self.workload} {self.seed:>3} {verdict}  lowered {self.lowered:>5} by "
            f"{self.left_out:>3} transactions  {raw}  killed {self.victim}{tries}"
        )


@dataclass(frozen=True, slots=True)
class Playing:
    """The round of one application; *seed* says what is killed, and when."""

    name: str
    seed: int
    work: Workload
    taking: Taking

    def play(self) -> Round:
        """Run the application, take, restore, and have it continue."""
        work, client, store = self.work, self.taking.client, self.taking.store
        chance = random.Random(self.seed)
        victim, refused = CYCLE[self.seed % len(CYCLE)], list[str]()
        ids: tuple[int, int] | None = None
        with work.running() as instances, work.fed():
            while ids is None:
                self._wait_for_progress()
                try:
                    instance: Process = chance.choice([*instances])
                    ids = self._taken(victim, instance, chance)
                except BreakglassError as error:
                    refused.append(str(error))
                    assert len(refused) < TRIES, refused
        wait_for_the_end(client, work.group, work.topics)
        wrong, raw = (work.faults_in(*stored(store, id, work.group)) for id in ids)
        for topic in work.topics:
            delete_topic(work.cluster, topic)
        self.taking.restored(ids[0], {})
        continued = self._continued()
        found = found_in(store, ids[0])
        assert found.cut is not None
        for id in ids:
            store.delete(id)
        for topic in work.topics:
            delete_topic(work.cluster, topic)
        left_out = found.cut.left_out or 0
        less = lowered(found)
        return Round(
            self.name, self.seed, victim, tuple(refused), less, left_out, wrong, raw, continued
        )

    def _taken(self, victim: Victim, instance: Process, chance: random.Random) -> tuple[int, int]:
        """A transactional checkpoint and a vector, of the same moment."""
        work, taking = self.work, self.taking
        groups = {work.group: GroupPolicy.EXACTLY_ONCE}
        levels = (Level.TRANSACTIONAL, Level.VECTOR)
        wanted = [taking.wanted(level, work.topics, groups) for level in levels]
        broker = chance.choice(work.cluster.brokers)
        first = chance.random() < 0.5
        with self._held(), ExitStack() as later:
            if victim in (Victim.INSTANCE, Victim.BOTH) and first:
                _again(instance, later)
            own, raw = (taking.started(one) for one in wanted)
            if victim in (Victim.INSTANCE, Victim.BOTH) and not first:
                _again(instance, later)
            if victim in (Victim.BROKER, Victim.BOTH):
                broker.kill()
                later.callback(work.cluster.wait_ready)
                later.callback(broker.start)
            for id in (own, raw):
                found = taking.finisher().finish(id)
                assert found.status is Status.COMPLETED, found
            return own, raw

    @contextmanager
    def _held(self) -> Iterator[None]:
        """No record is compacted away in the meantime, as with --hold-retention."""
        taking = self.taking
        cluster_id = taking.client.describe(Deadline.after(SECONDS)).cluster_id
        with taking.power.markers(cluster_id, holding=True) as markers:
            request = f"request-{self.name}-{self.seed}"
            holder = RetentionHolder(taking.client, markers, taking.control, request)
            holder.hold(self.work.topics)
            try:
                yield
            finally:
                holder.release()

    def _wait_for_progress(self) -> None:
        work, client = self.work, self.taking.client
        before = work.processed(client)
        work.ask()
        wait_until(
            lambda: work.processed(client) >= before + work.at_least,
            f"{work.at_least} records of {work.group} to be processed",
        )

    def _continued(self) -> Faults:
        """What is wrong after the application has continued, until nothing was left."""
        work, client = self.work, self.taking.client
        with work.running(1):
            wait_until(lambda: work.idle(client), "the application to come to the end")
        wait_for_the_end(client, work.group, work.topics)
        return work.faults()


def _again(instance: Process, later: ExitStack) -> None:
    instance.kill()
    later.callback(instance.start)


def streams(cluster: Cluster, folder: Path) -> Callable[[str], Workload]:
    """Kafka Streams, compiled once: exactly once, with a repartition and a changelog, at load."""
    classes = folder / "classes"
    classes.mkdir(parents=True)
    classpath = compiled(classes)
    return lambda name: Ledger(
        cluster, f"ledger-{name}", classpath, folder / f"instances-{name}"
    ).open()


def bank(cluster: Cluster, _: Path) -> Callable[[str], Workload]:
    """confluent-kafka's transactions, which share an epoch, in a topology with a cycle."""
    return lambda name: PlainBank(cluster, f"bank-{name}").open()


WORKLOADS = {"streams": streams, "bank": bank}


def rounds(cluster: Cluster, name: str, seeds: Iterable[int], folder: Path) -> Iterator[Round]:
    """A round for each of *seeds*, of an application of its own; *name* is of a workload."""
    opened = WORKLOADS[name](cluster, folder / name)
    with taking_on(cluster, folder / f"{name}-checkpoints") as taking:
        for seed in seeds:
            yield Playing(name, seed, opened(str(seed)), taking).play()
