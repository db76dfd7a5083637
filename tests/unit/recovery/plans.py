"""Plans over a few partitions, one of each kind."""

from collections.abc import Iterable
from dataclasses import replace

from breakglass.services.model import PartitionEvidence, Role, TopicPartition
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.plan.document import Plan
from breakglass.services.recovery.plan.make import make_plan
from tests.unit.recovery.replicas import HEALTHY, log, offline, silent, without_epochs

CLUSTER = "prod-eu-1"
MADE_AT_MS = 1_700_000_000_000

GONE = replace(HEALTHY, ruled_out={3: "declared gone"})
"""b3 never comes back; the plans are made under these circumstances."""

SAFE = offline(log(1, (0, 90)), log(2, (0, 100)), silent(3), number=1, floor=100)
LOSS = offline(
    log(2, (0, 100), (1, 150), hw=100),
    log(1, (0, 100), (2, 125), hw=100),
    silent(3),
    number=3,
    floor=100,
)
WAITING = offline(log(2, (0, 40)), silent(5, role=Role.LAST_KNOWN_ELR), number=4, floor=40)
UNHEARD = offline(log(2, (0, 40)), log(1, (0, 20)), silent(6), number=9, floor=40)
"""Nothing says that b6, which is down, holds no more than b2."""
FORK = offline(log(1, (0, 1000), hw=990), log(2, (0, 10), (5, 12)), number=5)
UNPROVEN = offline(log(1, (5, 100)), without_epochs(2, 150), number=6)
HALF_READ = offline(log(1, (0, 60)), silent(2, fenced=False), number=7)
BOMB = offline(log(4, role=Role.LAST_KNOWN_ELR), log(2, (0, 9)), number=8)
INTERNAL = offline(log(1, (0, 9)), topic="__consumer_offsets", number=0)

EVERY_KIND = (SAFE, LOSS, WAITING, FORK, UNPROVEN, HALF_READ, BOMB, INTERNAL)


def planned(*evidence: PartitionEvidence) -> Plan:
    return make_plan([assess(one, GONE) for one in evidence], CLUSTER, MADE_AT_MS)


def named(partitions: Iterable[TopicPartition]) -> list[str]:
    return [str(partition) for partition in partitions]
