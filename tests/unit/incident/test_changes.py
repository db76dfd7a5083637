"""What has changed between two readings of the metadata."""

from __future__ import annotations

from dataclasses import replace

from breakglass.services.incident.changes import changes, standing_changed
from breakglass.services.model import Broker, ClusterSnapshot, PartitionState, TopicPartition
from tests.kit.incidents import every_verdict, online_partition, snapshot_of

INCIDENT = every_verdict()
STATES = [row.state for row in INCIDENT.rows]
BEFORE = snapshot_of(STATES)


def named(partition: str) -> TopicPartition:
    topic, _, number = partition.rpartition("-")
    return TopicPartition(topic, int(number))


def with_state(changed: PartitionState) -> ClusterSnapshot:
    kept = [state for state in STATES if state.partition != changed.partition]
    return snapshot_of([*kept, changed])


def test_without_an_earlier_reading_every_row_has_to_be_read() -> None:
    found = changes((), None, BEFORE)
    assert [row.partition for row in found.rows] == sorted(state.partition for state in STATES)
    assert all(row.chunk is None for row in found.rows)
    assert not found.outdated


def test_the_same_partitions_in_another_tuple_leave_the_rows_the_very_same() -> None:
    found = changes(INCIDENT.rows, BEFORE, snapshot_of([replace(state) for state in STATES]))
    assert found.rows is INCIDENT.rows
    assert not found.outdated


def test_a_partition_that_changed_keeps_its_conclusions_until_it_is_read() -> None:
    ledger = next(state for state in STATES if state.partition.topic == "ledger")
    found = changes(INCIDENT.rows, BEFORE, with_state(replace(ledger, leader_epoch=11)))
    assert set(found.outdated) == {ledger.partition}
    row = next(row for row in found.rows if row.partition == ledger.partition)
    assert (row.state.leader_epoch, str(row.action), row.loss) == (11, "elect b1", 50)


def test_a_partition_that_is_led_again_has_no_row() -> None:
    ledger = next(state for state in STATES if state.partition.topic == "ledger")
    found = changes(INCIDENT.rows, BEFORE, with_state(replace(ledger, leader=1)))
    assert ledger.partition not in {row.partition for row in found.rows}
    assert not found.outdated


def test_brokers_that_were_fenced_make_their_partitions_out_of_date() -> None:
    found = changes(INCIDENT.rows, BEFORE, snapshot_of(STATES, fenced=(3, 4)))
    assert set(found.outdated) == {named(f"carts-{number}") for number in range(3)}


def test_brokers_that_returned_make_their_partitions_out_of_date() -> None:
    found = changes(INCIDENT.rows, BEFORE, BEFORE, returned=(4,))
    assert set(found.outdated) == {named(f"carts-{number}") for number in range(3)}


def test_settings_that_changed_make_their_topic_out_of_date() -> None:
    unclean = replace(BEFORE.settings["audit"], unclean_election=True)
    now = replace(BEFORE, settings={**BEFORE.settings, "audit": unclean})
    assert set(changes(INCIDENT.rows, BEFORE, now).outdated) == {named("audit-5")}


def test_online_partitions_are_no_rows() -> None:
    found = changes((), None, snapshot_of([], online=[online_partition("orders", 0)]))
    assert found.rows == ()


def test_a_broker_that_is_new_gone_or_fenced_has_changed_its_standing() -> None:
    before = BEFORE.description
    brokers = (*before.brokers[1:3], replace(before.brokers[3], fenced=True), Broker(9, "b9", 1))
    assert standing_changed(before, replace(before, brokers=brokers)) == {1, 4, 9}
