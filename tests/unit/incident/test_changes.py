"""What has changed between two readings of the metadata."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.incident.changes import Pending, changes, standing_changed
from breakglass.services.incident.incident import tally_again, tally_of
from breakglass.services.incident.row import EvidenceChunk, IncidentRow
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.snapshot import Broker, ClusterSnapshot
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


def of_states(states: list[PartitionState]) -> ClusterSnapshot:
    return replace(BEFORE, partitions=tuple(states))


@pytest.mark.parametrize("number", range(len(STATES)))
@pytest.mark.parametrize("other", range(0, len(STATES), 4))
def test_between_partitions_that_stayed_changed_new_and_lost_ones_are_found(
    number: int, other: int
) -> None:
    """The very same states before and behind are not looked at, whatever lies between."""
    changed, led = STATES[number], STATES[other]
    new = replace(changed, partition=TopicPartition(changed.partition.topic, 5_000))
    states = [state for state in STATES if state is not led or led is changed]
    at = states.index(changed)
    states[at] = replace(changed, leader_epoch=99)
    now = sorted([*states, new], key=lambda state: state.partition)
    found = changes(INCIDENT.rows, of_states(STATES), of_states(now))
    assert [row.state for row in found.rows] == now
    assert set(found.outdated) == {changed.partition}
    kept = {id(row) for row in INCIDENT.rows}
    fresh = {row.partition for row in found.rows if id(row) not in kept}
    assert fresh == {changed.partition, new.partition}


def test_states_in_any_order_give_sorted_rows() -> None:
    first, *others = STATES
    found = changes(INCIDENT.rows[1:], of_states(others), of_states([*others, first]))
    assert [row.state for row in found.rows] == STATES


def test_of_a_topic_only_the_partition_that_changed_is_read_again() -> None:
    orders = [state for state in STATES if state.partition.topic == "orders"]
    now = [replace(state, leader_epoch=9) if state is orders[1] else state for state in STATES]
    pending = Pending()
    pending.turn, pending._due_at = 0, float("inf")
    pending.update(changes(INCIDENT.rows, of_states(STATES), of_states(STATES)), afresh=False)
    assert not pending
    found = changes(INCIDENT.rows, of_states(STATES), of_states(now))
    pending.update(found, afresh=False)
    assert [found.rows[at].partition for at in pending.places(found.rows)] == [orders[1].partition]


def with_row(row: IncidentRow, number: int) -> tuple[IncidentRow, ...]:
    return (*INCIDENT.rows[:number], row, *INCIDENT.rows[number + 1 :])


def read_at(ms: int, row: IncidentRow) -> IncidentRow:
    return replace(row, chunk=EvidenceChunk((), ms))


def test_figures_of_all_stand_while_the_same_is_concluded_and_their_age_does_not() -> None:
    tally = tally_of(INCIDENT.rows, BEFORE.quorum)
    for number, row in enumerate(INCIDENT.rows):
        rows = with_row(read_at(5, row), number)
        assert tally_again(tally, INCIDENT.rows, rows) == tally_of(rows, BEFORE.quorum)
    assert tally_of(rows, BEFORE.quorum).evidence_at_ms == 5


def test_figures_of_all_are_not_those_of_other_conclusions_or_of_other_partitions() -> None:
    tally = tally_of(INCIDENT.rows, BEFORE.quorum)
    other = next(row for row in INCIDENT.rows if row.judged != INCIDENT.rows[4].judged)
    rows = with_row(replace(INCIDENT.rows[4], judged=other.judged), 4)
    assert tally_again(tally, INCIDENT.rows, rows) is None
    assert tally_again(tally, INCIDENT.rows, INCIDENT.rows[1:]) is None
