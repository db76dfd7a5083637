"""Scenarios in which the replica that led last is away, and those that live hold less or other.

`stale-replicas` and, with thousands of partitions, `many`: two replicas missed the end of the log.

`empty-replica`: a replica without a record stands before the one to elect. In KIP-1275's
pathological example, a replica joined the assignment too late to get data. Here the replica was
lost before the first record was written. An election by assignment order elects the empty replica,
and every other replica truncates its whole log.

`min-isr-2-one-alive`: min.insync.replicas is 2 and one replica is left to elect (R7). Once elected,
it leads and accepts acks=1, but consumers cannot read: its high watermark was never checkpointed,
so it is 0, and it does not advance while the ISR is smaller than 2.

`bad-unclean-before`: an almost empty replica has the highest epoch, by an earlier mistake (R9). b2
had 10 of 100 committed records when an operator elected it uncleanly; b3 followed b2 and led after
it. b1 kept its 100. By epoch b2 ranks first, and electing it would lose b1's committed records. The
operator then changed min.insync.replicas and back, which made the controller forget that b3 led
last (R3): b3 is not elected by itself, and may still have more records.

`compacted`: the longer log lacks compacted records that the shorter log still has. b2 is lost
before its log is cleaned, b1 afterwards. By count b2 seems to have many records that b1 lacks, but
b1 has a newer record under each of their keys, so nothing is lost (R10).

`diverged`: two replicas hold records that the other does not; the shorter log is the newer.

`replaced-disk`: the last leader is back with an empty disk, about to be elected (R1, R2).

`hanging-transaction`: only the dead leader has the commit marker (R18). The transaction's
coordinator survived and considers the transaction complete, so it never writes the marker again.
Once the other replica leads, read_committed consumers cannot read the transaction's records or any
record after them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from breakglass.services.clock import now_ms
from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern, produce
from breakglass.services.lab.properties import SMALL
from breakglass.services.lab.scenarios.damage import (
    B1_LOST,
    B2_ALONE,
    B2_LOST,
    B4_EMPTY,
    COURSE,
    LAST_LOST,
    QUICK_TO_FENCE,
    bring_back,
    lose,
    lose_last,
    reorder,
    wait_checkpointed,
)
from breakglass.services.lab.scenarios.scenario import (
    Scenario,
    Script,
    Shape,
    Stage,
    alone,
    wait_log_end,
    wait_records,
)
from breakglass.services.lab.segments import read_log
from breakglass.services.lab.topics import configure_topic, elect_unclean
from breakglass.services.lab.truth import Expectation, TrueVerdict, Written, expect
from breakglass.services.model import TopicPartition, known

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())

PARTITIONS = "partitions"
MANY_TOPIC = "events"
MANY_ORDERS = ((3, 1, 2), (3, 2, 1))
"""b3 leads each partition; an election by order is wrong for every second partition."""
MIN_ISR = "min.insync.replicas"
CHECKPOINT_MS = "replica.high.watermark.checkpoint.interval.ms"
SEGMENT_MS = 60_000
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": str(SEGMENT_MS),
}
"""A record so much newer than its segment's first one begins a new segment; the last segment is
never cleaned."""
LEADER = 3


def _stale(stage: Stage) -> Script:
    partitions = stage.create("orders", ((3, 1, 2), (3, 2, 1), (3, 2, 1)))
    stage.write(partitions, 100)
    yield B2_LOST
    stage.write(partitions, 25)
    yield B1_LOST
    stage.write(partitions[:2], 10)
    yield LAST_LOST
    why = "b3 led last and is intact; of the others b1 holds 25 records that b2 missed"
    return expect(partitions, TrueVerdict.WAIT, why, 3, 1, if_gone=TrueVerdict.SAFE)


def _many(stage: Stage) -> Script:
    count = stage.number(PARTITIONS)
    partitions = stage.create(MANY_TOPIC, [MANY_ORDERS[number % 2] for number in range(count)])
    stage.write_bulk(partitions, 2)
    yield B2_LOST
    stage.write_bulk(partitions, 1)
    yield B1_LOST
    yield LAST_LOST
    why = "b3 led last and is intact; b1 holds a record that b2 missed"
    return expect(partitions, TrueVerdict.WAIT, why, 3, 1, if_gone=TrueVerdict.SAFE)


def _empty(stage: Stage) -> Script:
    partitions = stage.create("invoices", [(3, 2, 1)])
    yield B2_LOST
    stage.write(partitions, 100)
    yield B1_LOST
    stage.write(partitions, 20)
    yield LAST_LOST
    why = "b3 led last and is intact; b2 comes before b1 in the assignment and is EMPTY"
    return expect(partitions, TrueVerdict.WAIT, why, 3, 1, if_gone=TrueVerdict.SAFE)


def _one_alive(stage: Stage) -> Sequence[Expectation]:
    cluster = stage.cluster
    partitions = stage.create("accounts", [(3, 2, 1)], {MIN_ISR: "2"})
    stage.write(partitions, 78)
    lose(cluster, 1)
    stage.write(partitions, 12)
    lose(cluster, 2)
    stage.write(partitions, 4, acks="1", committed=False)
    lose_last(cluster, 3, back=(1,))
    why = "b3 and b2 are ELR members and intact; b1, the only one alive, missed 12 records"
    return expect(partitions, TrueVerdict.WAIT, why, 3, 1, if_gone=TrueVerdict.WAIT)


def _bad_unclean_before(stage: Stage) -> Sequence[Expectation]:
    cluster = stage.cluster
    (partition,) = stage.create("balances", [(1, 2, 3)], {MIN_ISR: "1"})
    stage.write([partition], 10)
    lose(cluster, 2)
    stage.write([partition], 90)
    wait_checkpointed(cluster, 1, partition, 100)
    lose(cluster, 3)
    lose_last(cluster, 1, back=(2,))
    elect_unclean(cluster, partition)
    stage.wait_leader(partition, 2)
    stage.write([partition], 3)
    bring_back(cluster, 3)
    stage.wait_isr(partition, 2, 3)
    lose(cluster, 2)
    stage.wait_leader(partition, 3)
    stage.write([partition], 2)
    lose_last(cluster, 3, back=(1, 2))
    # The controller forgets the last leader.
    for value in ("2", "1"):
        configure_topic(cluster, partition.topic, {MIN_ISR: value})
    cluster.wait_partition(
        partition.topic,
        partition.partition,
        lambda state: (
            not (known(state.elr) and state.elr)
            and not (known(state.last_known_elr) and state.last_known_elr)
        ),
        "no eligible or last known leader",
    )
    why = (
        "nobody knows what b3 holds, which is down; without it b1 holds 90 committed "
        "records that b2 lacks, and b2 3 of a later epoch that b1 lacks"
    )
    return expect([partition], TrueVerdict.WAIT, why, 3, if_gone=TrueVerdict.FORK)


def _compacted(stage: Stage) -> Script:
    (partition,) = stage.create("profiles", [(LEADER, 1, 2)], COMPACTED)
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
    why = (
        "b3 led last and is intact; b1 follows it further than b2, and of what b2 alone "
        "holds it has newer records under every key"
    )
    return expect([partition], TrueVerdict.WAIT, why, LEADER, 1, if_gone=TrueVerdict.SAFE)


def _update(stage: Stage, partition: TopicPartition, users: range, timestamp_ms: int) -> None:
    pattern = Pattern("user", start=users.start, timestamp_ms=timestamp_ms)
    topic, number = partition.topic, partition.partition
    produced = produce(stage.cluster, topic, number, len(users), pattern=pattern)
    keys = tuple(record.key.decode() for record in produced.acked)
    written = Written(0, produced.offsets[0], keys, acks="all", committed=True, broker=LEADER)
    stage.record(partition, written)


def _diverged(stage: Stage) -> Script:
    (partition,) = stage.create("ledger", [(3, 2, 1)])
    stage.write([partition], 100)
    reorder(stage.cluster, partition, (2, 1, 3))
    yield B2_ALONE
    stage.write([partition], 50, acks="1", committed=False)
    yield B2_LOST
    stage.wait_leader(partition, 1)
    # What b2 alone took reached nobody: without that, no two logs would diverge.
    wait_log_end(stage.cluster, partition, 100, 1)
    stage.write([partition], 25)
    yield B1_LOST
    stage.wait_leader(partition, 3)
    yield LAST_LOST
    why = (
        "b3 led last, without a record of its own; b1 wrote 25 committed records in a "
        "later epoch than the 50 that b2 alone took with acks=1, though its log is shorter"
    )
    return expect([partition], TrueVerdict.WAIT, why, 3, 1, if_gone=TrueVerdict.LOSS)


STALE_REPLICAS = Scenario(
    "stale-replicas",
    "Two replicas missed the end of the log; the last leader is dead.",
    _stale,
    course=COURSE,
    shape=QUICK_TO_FENCE,
)
MANY = Scenario(
    "many",
    "Two thousand offline partitions, two stale replicas of each alive.",
    _many,
    course=COURSE,
    shape=QUICK_TO_FENCE,
    options={PARTITIONS: "2000"},
)
EMPTY_REPLICA = Scenario(
    "empty-replica",
    "A replica with log end offset 0 stands before the one that holds records.",
    _empty,
    course=COURSE,
    shape=QUICK_TO_FENCE,
)
ONE_ALIVE = Scenario(
    "min-isr-2-one-alive",
    "min.insync.replicas is 2, and a single stale replica is alive.",
    alone(_one_alive),
    shape=Shape(overrides={**QUICK_TO_FENCE.overrides, CHECKPOINT_MS: "3600000"}),
)
BAD_UNCLEAN_BEFORE = Scenario(
    "bad-unclean-before",
    "After an earlier bad unclean election an almost empty replica has the highest epoch.",
    alone(_bad_unclean_before),
    shape=Shape(overrides={**QUICK_TO_FENCE.overrides, CHECKPOINT_MS: "500"}),
)
COMPACTED_LOG = Scenario(
    "compacted",
    "The longer log has holes where the shorter one still holds what they replaced.",
    _compacted,
    course=COURSE,
)
DIVERGED = Scenario(
    "diverged",
    "Two replicas hold records the other lacks, and the shorter one must win.",
    _diverged,
    course=COURSE,
    shape=QUICK_TO_FENCE,
)


CARTS = "carts"
ASSIGNMENTS = ((4, 1, 2), (4, 2, 1), (1, 4, 2))
ELECTION_INTERVAL = "leader.imbalance.check.interval.seconds"
"""How often the controller elects by itself, leaderless partitions included; no dynamic setting."""
HELD_OFF = {**QUICK_TO_FENCE.overrides, ELECTION_INTERVAL: "3600"}
AT_ONCE = {**QUICK_TO_FENCE.overrides, ELECTION_INTERVAL: "2"}


def _replaced_disk(stage: Stage) -> Script:
    partitions = stage.create(CARTS, ASSIGNMENTS)
    stage.write(partitions, 100)
    yield B2_LOST
    stage.write(partitions, 25)
    yield B1_LOST
    stage.write(partitions, 25)
    yield LAST_LOST
    yield B4_EMPTY
    stage.mark_disk(4, "replaced")
    why = "b4 led last and is back EMPTY; once it is stopped, b1 holds the most"
    return expect(partitions, TrueVerdict.BOMB, why, 4, 1, if_gone=TrueVerdict.SAFE)


def _replaced_disk_unattended(stage: Stage) -> Script:
    bombs = yield from _replaced_disk(stage)
    for bomb in bombs:
        stage.wait_leader(bomb.partition, 4)
        wait_log_end(stage.cluster, bomb.partition, 0, 1, 2, 4)
    led = [bomb.partition for bomb in bombs]
    return expect(led, None, "b4 leads, EMPTY; all followed it to 0")


REPLACED_DISK = Scenario(
    "replaced-disk",
    "The last leader is back with an empty disk, and will be elected by the controller.",
    _replaced_disk,
    shape=Shape(brokers=4, overrides=HELD_OFF),
    course=COURSE,
)
REPLACED_DISK_UNATTENDED = Scenario(
    "replaced-disk-unattended",
    "The same, left to the controller: it elects the empty replica, and every record is lost.",
    _replaced_disk_unattended,
    shape=Shape(brokers=4, overrides=AT_ONCE),
    course=COURSE,
)


BILLING = "billing"
TRANSACTION_RECORDS = 10
TRANSACTIONAL_ID = "billing-writer"
COORDINATOR = 1
TRANSACTION_TOPIC = "__transaction_state"
TRANSACTION_PARTITIONS = int(SMALL["transaction.state.log.num.partitions"])
TRANSACTION_SECONDS = 20.0


def _hanging_transaction(stage: Stage) -> Script:
    stage.create(
        TRANSACTION_TOPIC, [(COORDINATOR,)] * TRANSACTION_PARTITIONS, {"cleanup.policy": "compact"}
    )
    (partition,) = stage.create(BILLING, [(3, 2)])
    producer = begun(stage.cluster, TRANSACTIONAL_ID)
    keys = tuple(f"r-{number}" for number in range(TRANSACTION_RECORDS))
    for key in keys:
        value = f"{key}@{partition}"
        producer.produce(
            partition.topic, partition=partition.partition, key=key.encode(), value=value.encode()
        )
    left = producer.flush(TRANSACTION_SECONDS)
    if left:
        raise LabError(f"{left} records of the transaction were not taken: run it again.")
    wait_log_end(stage.cluster, partition, TRANSACTION_RECORDS, 2, 3)
    yield B2_LOST
    producer.commit_transaction(TRANSACTION_SECONDS)
    wait_log_end(stage.cluster, partition, TRANSACTION_RECORDS + 1, 3)
    stage.record(partition, Written(0, 0, keys, acks="all", committed=True, broker=3))
    stage.write([partition], 5)
    yield B1_LOST
    yield LAST_LOST
    stage.notes["hanging transaction"] = TRANSACTIONAL_ID
    folder = stage.cluster.broker(2).partition_folder(partition.topic, partition.partition)
    stage.notes["hanging producer id"] = str(read_log(folder).batches[0].producer_id)
    stage.notes["hanging since offset"] = "0"
    why = (
        "b3 led last and alone has the commit marker; on b2 the transaction stays open "
        "for ever, and read_committed reads nothing from its first record on"
    )
    return expect([partition], TrueVerdict.WAIT, why, 3, 2, if_gone=TrueVerdict.SAFE)


def begun(cluster: Cluster, transactional_id: str) -> Any:
    """A producer in a transaction."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": cluster.lab_bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
        },
        logger=logger,
    )
    producer.init_transactions(TRANSACTION_SECONDS)
    producer.begin_transaction()
    return producer


HANGING_TRANSACTION = Scenario(
    "hanging-transaction",
    "The commit marker is on the dead leader alone: read_committed will stop there for ever.",
    _hanging_transaction,
    course=COURSE,
)
