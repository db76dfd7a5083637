"""What the brokers of a large cluster answer about their replicas, generated from a seed.

Topics of 100 partitions with three replicas, each in a rack of its own. The brokers of the last
rack are down where partitions are offline. No two logs need to be alike: ends, high watermarks and
epochs differ from partition to partition, as they do in a cluster that has lived.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from breakglass.services.kafka.replicas.replica_reader import ReplicaReading
from breakglass.services.model import (
    EpochHistory,
    EpochRange,
    FigureSource,
    LogDir,
    PartitionState,
    TopicPartition,
    TopicSettings,
)
from breakglass.services.recovery.evidence.gather import BrokerAnswer
from breakglass.services.snapshot import Broker, ClusterDescription, ClusterSnapshot, Quorum

BROKERS = 200
RACKS = 3
OF_A_TOPIC = 100
"""Partitions."""
SEED = 18
AT_MS = 1_700_000_000_000
SETTINGS = TopicSettings(2, unclean_election=False, compacted=False)


class LargeCluster(NamedTuple):
    """A snapshot, and what the brokers that are alive answered about offline partitions."""

    snapshot: ClusterSnapshot
    answers: Mapping[int, BrokerAnswer]
    silent: Mapping[int, str]


class Past(NamedTuple):
    """What became of a partition before its last leader went down."""

    elr: bool
    """Its last leader, which is down, is in the ELR; else two replicas are all there are."""
    first: tuple[EpochRange, ...]
    second: tuple[EpochRange, ...]
    committed: int
    """The high watermark that the second replica heard."""


def generated(partitions: int, offline: int, brokers: int = BROKERS) -> LargeCluster:
    """A cluster of *partitions*, of which *offline* have no leader, spread over all topics."""
    chance = random.Random(SEED)
    every = max(1, partitions // offline) if offline else partitions + 1
    readings: dict[int, dict[TopicPartition, ReplicaReading]] = {}
    states: list[PartitionState] = []
    left = offline
    for number in range(partitions):
        topic, place = divmod(number, OF_A_TOPIC)
        partition = TopicPartition(f"topic-{topic:05}", place)
        # Brokers of rack 0, 1 and 2; neighbours have others, and all are chosen as often.
        turns = (number, number * 5 + 1, number * 7 + 2)
        in_rack = [(brokers - rack + RACKS - 1) // RACKS for rack in range(RACKS)]
        racks = tuple(turns[rack] % in_rack[rack] * RACKS + rack + 1 for rack in range(RACKS))
        if number % every or not left:
            states.append(
                PartitionState(partition, _topic_id(partition), racks[0], 3, racks, racks, (), ())
            )
            continue
        left -= 1
        past = _PASTS[topic % len(_PASTS)](chance)
        assignment = (racks[2], *racks[:2]) if past.elr else racks[:2]
        elr = racks[2:] if past.elr else ()
        states.append(
            PartitionState(partition, _topic_id(partition), None, 9, assignment, (), elr, ())
        )
        for broker, epochs in zip(racks[:2], (past.first, past.second), strict=True):
            mark = past.committed if broker == racks[1] else epochs[-1].end
            readings.setdefault(broker, {})[partition] = _reading(epochs, mark)
    down = {broker for broker in range(1, brokers + 1) if offline and _rack(broker) == RACKS - 1}
    description = ClusterDescription(
        "large-cluster",
        tuple(
            Broker(broker, f"b{broker}", 9092, f"rack-{_rack(broker)}", broker in down)
            for broker in range(1, brokers + 1)
        ),
        names_fenced=True,
    )
    settings = {state.partition.topic: SETTINGS for state in states if state.offline}
    snapshot = ClusterSnapshot(
        description, Quorum(1000, 7, 100_000, ()), tuple(states), AT_MS, settings
    )
    answers = {broker: BrokerAnswer(held, _log_dirs(held)) for broker, held in readings.items()}
    silent = {broker: f"b{broker} does not answer (connection refused)" for broker in sorted(down)}
    return LargeCluster(snapshot, answers, silent)


def _rack(broker: int) -> int:
    return (broker - 1) % RACKS


def _topic_id(partition: TopicPartition) -> UUID:
    return UUID(int=int(partition.topic.removeprefix("topic-")) + 1)


def _reading(epochs: tuple[EpochRange, ...], mark: int) -> ReplicaReading:
    return ReplicaReading(
        log_start=0,
        high_watermark=mark,
        log_end=epochs[-1].end,
        leader_epoch=9,
        epochs=EpochHistory(epochs, 0),
        newest_ms=AT_MS - epochs[-1].end,
        log_dir_online=True,
        source=FigureSource.STOCK,
        observed_at_ms=AT_MS,
    )


def _log_dirs(held: Mapping[TopicPartition, ReplicaReading]) -> dict[TopicPartition, LogDir]:
    return {partition: LogDir("/var/kafka", online=True, size=1_000_000) for partition in held}


def _waits(chance: random.Random) -> Past:
    """The last leader brings it back whole; what is alive is behind it."""
    end, behind = chance.randrange(10_000, 1_000_000), chance.randrange(1, 500)
    return Past(True, _epochs((4, end)), _epochs((4, end - behind)), end - behind)


def _loses(chance: random.Random) -> Past:
    """Two leaders wrote after each other's end; the first was elected last."""
    shared = chance.randrange(10_000, 1_000_000)
    ours, theirs = chance.randrange(1, 90), chance.randrange(1, 90)
    first = _epochs((4, shared), (8, shared + ours))
    return Past(False, first, _epochs((4, shared), (6, shared + theirs)), shared)


def _is_safe(chance: random.Random) -> Past:
    """One log is a prefix of the other."""
    end, behind = chance.randrange(10_000, 1_000_000), chance.randrange(0, 500)
    first = _epochs((4, end - 1000), (8, end))
    return Past(False, first, _epochs((4, end - 1000), (8, end - behind)), end - behind)


def _forks(chance: random.Random) -> Past:
    """As `_loses`, and the second knows its own as committed."""
    past = _loses(chance)
    return past._replace(committed=past.second[-1].end)


_PASTS: tuple[Callable[[random.Random], Past], ...] = (_waits, _loses, _is_safe, _waits, _forks)
"""By topic, in turn."""


def _epochs(*ends: tuple[int, int]) -> tuple[EpochRange, ...]:
    """(epoch, end) of each, which begins where the one before ended."""
    return tuple(_ranges(ends))


def _ranges(ends: tuple[tuple[int, int], ...]) -> Iterator[EpochRange]:
    start = 0
    for epoch, end in ends:
        yield EpochRange(epoch, start, end)
        start = end
