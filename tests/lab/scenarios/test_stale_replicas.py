"""`stale-replicas`: two replicas missed the end of the log; the last leader is dead."""

from __future__ import annotations

from breakglass.services.lab.truth import Condition, TrueVerdict
from breakglass.services.model import EpochRange, Role, TopicPartition
from tests.lab.scenarios.damaged import Damaged, ends_on_disk, ends_told

ORDERS = [TopicPartition("orders", number) for number in range(3)]


def test_every_partition_is_offline_and_only_b3_would_bring_it_back(
    three_losses: Damaged,
) -> None:
    for partition in ORDERS:
        state = three_losses.state(partition)
        assert state.leader is None
        assert [state.role(broker) for broker in (1, 2)] == [Role.STALE, Role.STALE]
        assert state.role(3) in (Role.ISR, Role.ELR)
        assert state.offline_replicas == (3,)
    assert three_losses.truth.brokers[3] is Condition.DEAD
    assert not three_losses.cluster.broker(3).running


def test_the_replicas_end_where_their_brokers_were_lost(three_losses: Damaged) -> None:
    told = ends_told(three_losses)
    assert [told[partition] for partition in ORDERS] == [{1: 125, 2: 100}] * 3
    assert told == ends_on_disk(three_losses)
    dead = [three_losses.truth_of(partition).replica(3) for partition in ORDERS]
    assert [(replica.readable, replica.log_end) for replica in dead] == [
        (False, 135),
        (False, 135),
        (False, 125),
    ]


def test_all_of_it_was_acknowledged_by_all_in_sync(three_losses: Damaged) -> None:
    first = three_losses.truth_of(ORDERS[0])
    assert [(written.start, written.end, written.broker) for written in first.written] == [
        (0, 100, 3),
        (100, 125, 3),
        (125, 135, 3),
    ]
    assert all(written.acks == "all" and written.committed for written in first.written)
    assert first.written[2].keys == tuple(f"r-{number}" for number in range(125, 135))
    assert first.replica(1).epochs == (EpochRange(0, 0, 125),)


def test_the_longer_stale_replica_loses_what_only_the_dead_one_has(
    three_losses: Damaged,
) -> None:
    first, last = (three_losses.truth_of(ORDERS[number]) for number in (0, 2))
    assert (first.choice(1).committed, first.choice(1).unread, first.choice(1).acked) == (0, 10, 10)
    assert (first.choice(2).committed, first.choice(2).acked) == (25, 35)
    assert (last.choice(1).unread, last.choice(1).acked) == (0, 0)
    for partition in ORDERS:
        expected = three_losses.truth_of(partition).expectation
        assert (expected.verdict, expected.broker, expected.designee) == (TrueVerdict.WAIT, 3, 1)
