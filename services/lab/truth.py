"""Records the state that a scenario leaves, found out without the product.

The lab knows which records were produced and how they were acknowledged, and reads the replicas'
segments on disk. (leader epoch, offset) identifies a record: two replicas have the same record
exactly when both are equal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from breakglass.services.errors import LabError
from breakglass.services.lab.layout import TRUTH_FILE
from breakglass.services.model import EpochRange, TopicPartition

SCHEMA = 1


class TrueVerdict(StrEnum):
    """The word a partition should be given (design: one word and one action)."""

    WAIT = "WAIT"
    """`broker` of the expectation would bring the partition back whole: start it."""
    SAFE = "SAFE"
    LOSS = "LOSS"
    FORK = "FORK"
    BOMB = "BOMB"
    """`broker` of the expectation is empty and about to be elected: stop it."""
    STUCK = "STUCK"


class Condition(StrEnum):
    """What became of a broker."""

    RUNNING = "running"
    PAUSED = "paused"
    """Stopped by SIGSTOP: its connections hang."""
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Written:
    """Records of one leader epoch that a leader acknowledged together: ``[start, start + n)``."""

    epoch: int
    start: int
    keys: tuple[str, ...]
    """One for each record."""
    acks: str
    """``all`` or ``1``."""
    committed: bool
    """The high watermark passed them: every member of the ISR of that moment had them."""
    broker: int
    """The leader that took them."""

    @property
    def end(self) -> int:
        return self.start + len(self.keys)


@dataclass(frozen=True, slots=True)
class ReplicaTruth:
    """One replica's log, read from its segments after the damage."""

    broker: int
    readable: bool
    """The broker answers; what it holds can be read over the network."""
    log_start: int
    log_end: int
    epochs: tuple[EpochRange, ...]
    """Offsets that each epoch wrote, oldest first; an offset may be missing after compaction."""
    records: int
    """Records present: less than log_end - log_start after compaction."""
    disk: str = "intact"
    """``intact``; ``replaced``: emptied by the scenario; ``failed``: a log directory offline."""

    @property
    def last_epoch(self) -> int | None:
        """The highest epoch that holds records; None for a log without records."""
        return self.epochs[-1].epoch if self.epochs else None


@dataclass(frozen=True, slots=True)
class CountedLoss:
    """What electing one replica loses, counted record by record; the counts are never added up."""

    broker: int
    committed: int
    """Committed records that other readable replicas hold and this one does not."""
    uncommitted: int
    """The same of records that were never committed."""
    unread: int
    """Records that only replicas that cannot be read hold."""
    acked: int
    """Acknowledged records that this replica does not hold, wherever they are, if anywhere."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a correct triage says of a partition."""

    partition: TopicPartition
    verdict: TrueVerdict | None
    """None: the partition is online."""
    broker: int | None
    """The broker that the action names: start, elect or stop it."""
    designee: int | None
    """The replica to elect if a leader is elected now; None: no leader must be elected."""
    why: str
    """One sentence for the reader of a failed test."""
    if_gone: TrueVerdict | None = None
    """The word once *broker*, to start or to stop, is away for good; None: the same."""


def expect(
    partitions: Sequence[TopicPartition],
    verdict: TrueVerdict | None,
    why: str,
    broker: int | None = None,
    designee: int | None = None,
    *,
    if_gone: TrueVerdict | None = None,
) -> list[Expectation]:
    """The same expectation of each of *partitions*."""
    return [
        Expectation(partition, verdict, broker, designee, why, if_gone) for partition in partitions
    ]


@dataclass(frozen=True, slots=True)
class PartitionTruth:
    """One partition."""

    scenario: str
    expectation: Expectation
    assignment: tuple[int, ...]
    written: tuple[Written, ...]
    replicas: tuple[ReplicaTruth, ...]
    """In the order of the assignment."""
    choices: tuple[CountedLoss, ...]
    """One for each readable replica, in the order of the assignment."""

    @property
    def partition(self) -> TopicPartition:
        return self.expectation.partition

    def replica(self, broker: int) -> ReplicaTruth:
        """The replica on *broker*; LabError when it is not assigned there."""
        return _one(self.replicas, broker, self.partition)

    def choice(self, broker: int) -> CountedLoss:
        """The price of electing *broker*; LabError when it cannot be read."""
        return _one(self.choices, broker, self.partition)


@dataclass(frozen=True, slots=True)
class Truth:
    """A whole lab after its scenarios."""

    cluster_id: str
    kafka_version: str
    scenarios: tuple[str, ...]
    brokers: Mapping[int, Condition]
    partitions: tuple[PartitionTruth, ...]
    notes: Mapping[str, str] = field(default_factory=dict)
    """Facts of one scenario alone, by name: ``hanging producer`` -> ``1001``."""

    def partition(self, topic: str, partition: int) -> PartitionTruth:
        """One partition; LabError when the scenarios did not touch it."""
        wanted = TopicPartition(topic, partition)
        for truth in self.partitions:
            if truth.partition == wanted:
                return truth
        raise LabError(f"No scenario of this lab made {wanted}: read the names in {TRUTH_FILE}.")

    def of(self, scenario: str) -> tuple[PartitionTruth, ...]:
        return tuple(truth for truth in self.partitions if truth.scenario == scenario)


T = TypeVar("T", ReplicaTruth, CountedLoss)


def document(truth: Truth) -> dict[str, Any]:
    """The truth as plain values, with a schema version."""
    return {"schema": SCHEMA, **asdict(truth)}


def to_json(truth: Truth) -> str:
    """The truth as a JSON document."""
    return json.dumps(document(truth), indent=1) + "\n"


def from_json(text: str) -> Truth:
    """The truth that `to_json` wrote.

    Raises:
        LabError: another release wrote it.
    """
    read = json.loads(text)
    if read["schema"] != SCHEMA:
        raise LabError("This truth was written by another release: run the scenario again.")
    return Truth(
        cluster_id=read["cluster_id"],
        kafka_version=read["kafka_version"],
        scenarios=tuple(read["scenarios"]),
        brokers={int(key): Condition(word) for key, word in read["brokers"].items()},
        partitions=tuple(
            PartitionTruth(
                scenario=one["scenario"],
                expectation=_expectation(one["expectation"]),
                assignment=tuple(one["assignment"]),
                written=tuple(
                    Written(**{**one, "keys": tuple(one["keys"])}) for one in one["written"]
                ),
                replicas=tuple(
                    ReplicaTruth(
                        **{**one, "epochs": tuple(EpochRange(**each) for each in one["epochs"])}
                    )
                    for one in one["replicas"]
                ),
                choices=tuple(CountedLoss(**one) for one in one["choices"]),
            )
            for one in read["partitions"]
        ),
        notes=read["notes"],
    )


def save_truth(truth: Truth, state_dir: Path) -> None:
    """Keep the truth in the lab's state folder, for later checks against it."""
    (state_dir / TRUTH_FILE).write_text(to_json(truth), encoding="utf-8")


def _expectation(read: dict[str, Any]) -> Expectation:
    partition = TopicPartition(**read["partition"])
    words = {
        name: TrueVerdict(read[name]) if read[name] else None for name in ("verdict", "if_gone")
    }
    return Expectation(**{**read, **words, "partition": partition})


def _one(found: tuple[T, ...], broker: int, where: TopicPartition) -> T:
    for truth in found:
        if truth.broker == broker:
            return truth
    raise LabError(f"Broker {broker} has none in {where}: choose another.")
