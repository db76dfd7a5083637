"""`diverged`: each of two replicas holds records that the other lacks; the shorter must win."""

from __future__ import annotations

import re

from breakglass.services.lab.tools import run_tool
from breakglass.services.lab.truth import CountedLoss
from breakglass.services.model import EpochRange, Role, TopicPartition
from tests.lab.scenarios.damaged import Damaged, ends_told

LEDGER = TopicPartition("ledger", 0)
DUMP = {"4.3.1": "org.apache.kafka.tools.DumpLogSegments", "3.9.2": "kafka.tools.DumpLogSegments"}
DUMPED = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) .*?partitionLeaderEpoch: (\d+)")


def test_two_stale_replicas_part_at_100_and_the_longer_took_alone_what_was_never_committed(
    three_losses: Damaged,
) -> None:
    state, truth = three_losses.state(LEDGER), three_losses.truth_of(LEDGER)
    assert (state.leader, state.leader_epoch, state.assignment) == (None, 4, (2, 1, 3))
    assert [state.role(broker) for broker in (1, 2)] == [Role.STALE, Role.STALE]
    assert state.role(3) in (Role.ISR, Role.ELR)
    common = EpochRange(0, 0, 100)
    assert truth.replica(2).epochs == (common, EpochRange(1, 100, 150))
    assert truth.replica(1).epochs == (common, EpochRange(2, 100, 125))
    assert ends_told(three_losses)[LEDGER] == {1: 125, 2: 150}
    assert truth.choice(1) == CountedLoss(1, committed=0, uncommitted=50, unread=0, acked=50)
    assert truth.choice(2) == CountedLoss(2, committed=25, uncommitted=0, unread=0, acked=25)


def test_kafka_reads_the_same_epochs_from_the_segments(three_losses: Damaged) -> None:
    cluster = three_losses.cluster
    for broker in (1, 2, 3):
        folder = cluster.broker(broker).partition_folder("ledger", 0)
        assert folder is not None
        (segment,) = folder.glob("*.log")
        tool = DUMP[cluster.layout.kafka_version]
        dump = run_tool(cluster.kafka, tool, ["--files", str(segment)]).check()
        batches = [tuple(map(int, found)) for found in DUMPED.findall(dump.stdout)]
        identities = {
            (epoch, offset) for first, last, epoch in batches for offset in range(first, last + 1)
        }
        replica = three_losses.truth_of(LEDGER).replica(broker)
        assert len(identities) == replica.records
        assert identities == {
            (held.epoch, offset)
            for held in replica.epochs
            for offset in range(held.start, held.end)
        }
