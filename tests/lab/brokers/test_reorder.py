"""The stock route to a designated leader: the same replicas in another order, then an election."""

from __future__ import annotations

import pytest

from breakglass.services.model import TopicPartition
from tests.lab.asking import election_code, reassign_code, reassignments
from tests.lab.scenarios.damaged import Damaged

SECOND, THIRD = TopicPartition("orders", 1), TopicPartition("orders", 2)


@pytest.mark.parametrize(("partition", "order"), [(SECOND, [1, 3, 2]), (THIRD, [3, 2, 1])])
def test_a_reorder_ends_at_once_and_an_election_takes_the_first_live_one(
    offline: Damaged, partition: TopicPartition, order: list[int]
) -> None:
    assert reassign_code(offline.cluster, partition, order) == (0, None)
    assert reassignments(offline.cluster) == {}
    reordered = offline.cluster.wait_partition(
        partition.topic,
        partition.partition,
        lambda state: state.assignment == tuple(order),
        "the new order",
    )
    assert reordered.offline, "the reorder itself elects nobody"
    assert election_code(offline.cluster, partition) == (0, None)
    first_live = next(broker for broker in order if broker != 3)
    offline.cluster.wait_partition(
        partition.topic,
        partition.partition,
        lambda state: state.leader == first_live,
        f"b{first_live} to lead",
    )
