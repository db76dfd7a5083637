"""`compacted`: the longer log lacks compacted records that the shorter log still has.

b2 is lost before its log is cleaned, b1 afterwards. By count b2 seems to have many records that b1
lacks, but b1 has a newer record under each of their keys, so nothing is lost (R10).
"""

from __future__ import annotations

from breakglass.services.clock import now_ms
from breakglass.services.lab.produce import Pattern, produce
from breakglass.services.lab.scenarios.damage import B1_LOST, B2_LOST, COURSE, LAST_LOST
from breakglass.services.lab.scenarios.logs import wait_records
from breakglass.services.lab.scenarios.scenario import Scenario, Script
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.truth import Expectation, TrueVerdict, Written
from breakglass.services.model import TopicPartition

TOPIC = "profiles"
SEGMENT_MS = 60_000
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": str(SEGMENT_MS),
}
"""A record so much newer than its segment's first one begins a new segment; the last segment is
never cleaned."""
LEADER = 3


def _script(stage: Stage) -> Script:
    (partition,) = stage.create(TOPIC, [(LEADER, 1, 2)], CONFIGS)
    now = now_ms()
    first, second, third, fourth = (now - age * 2 * SEGMENT_MS for age in (3, 2, 1, 0))
    _update(stage, partition, range(75), first)
    _update(stage, partition, range(50, 75), first)
    yield B2_LOST
    _update(stage, partition, range(25, 50), second)
    _update(stage, partition, range(10), third)
    wait_records(stage.cluster, partition, 85, 1, LEADER)
    yield B1_LOST
    _update(stage, partition, range(5), fourth)
    yield LAST_LOST
    return [
        Expectation(
            partition,
            TrueVerdict.WAIT,
            broker=LEADER,
            designee=1,
            why=(
                "b3 led last and is intact; b1 follows it further than b2, and of what b2 alone "
                "holds it has newer records under every key"
            ),
            if_gone=TrueVerdict.SAFE,
        )
    ]


def _update(stage: Stage, partition: TopicPartition, users: range, timestamp_ms: int) -> None:
    """Write one record for each of *users*."""
    pattern = Pattern("user", start=users.start, timestamp_ms=timestamp_ms)
    topic, number = partition.topic, partition.partition
    produced = produce(stage.cluster, topic, number, len(users), pattern=pattern)
    keys = tuple(record.key.decode() for record in produced.acked)
    written = Written(0, produced.offsets[0], keys, acks="all", committed=True, broker=LEADER)
    stage.record(partition, written)


SCENARIO = Scenario(
    "compacted",
    "The longer log has holes where the shorter one still holds what they replaced.",
    _script,
    course=COURSE,
)
