"""What has changed between two readings of the metadata."""

from dataclasses import replace

import pytest

from breakglass.services.incident.changes import changes, standing_changed
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.snapshot import Broker, ClusterSnapshot
from tests.kit.incidents import every_verdict, snapshot_of

INCIDENT = every_verdict()
STATES = [row.state for row in INCIDENT.rows]
BEFORE = snapshot_of(STATES)
CARTS = {"carts-0", "carts-1", "carts-2"}
UNCLEAN = replace(BEFORE.settings["audit"], unclean_election=True)
LEDGER = next(state for state in STATES if state.partition.topic == "ledger")


def of_states(states: list[PartitionState]) -> ClusterSnapshot:
    return replace(BEFORE, partitions=tuple(states))


def with_ledger(**fields: int) -> ClusterSnapshot:
    changed = replace(LEDGER, **fields)  # type: ignore[arg-type]
    return of_states([changed if state is LEDGER else state for state in STATES])


def test_a_partition_that_changed_keeps_its_conclusions_until_it_is_read() -> None:
    found = changes(INCIDENT.rows, BEFORE, with_ledger(leader_epoch=11))
    assert set(found.outdated) == {LEDGER.partition}
    row = next(row for row in found.rows if row.partition == LEDGER.partition)
    assert (row.state.leader_epoch, str(row.action), row.loss) == (11, "elect b1", 50)


@pytest.mark.parametrize(
    ("now", "returned", "outdated"),
    [
        (snapshot_of(STATES, fenced=(3, 4)), (), CARTS),
        (BEFORE, (4,), CARTS),
        (replace(BEFORE, settings={**BEFORE.settings, "audit": UNCLEAN}), (), {"audit-5"}),
        (BEFORE, (), set()),
    ],
    ids=["brokers were fenced", "a broker returned", "settings changed", "nothing changed"],
)
def test_what_a_partition_is_judged_by_makes_it_out_of_date(
    now: ClusterSnapshot, returned: tuple[int, ...], outdated: set[str]
) -> None:
    assert set(map(str, changes(INCIDENT.rows, BEFORE, now, returned).outdated)) == outdated


def test_a_broker_that_is_new_gone_or_fenced_has_changed_its_standing() -> None:
    before = BEFORE.description
    brokers = (*before.brokers[1:3], replace(before.brokers[3], fenced=True), Broker(9, "b9", 1))
    assert standing_changed(before, replace(before, brokers=brokers)) == {1, 4, 9}


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
