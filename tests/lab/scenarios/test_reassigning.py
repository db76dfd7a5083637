"""`reassigning`: a reassignment that nobody can finish is under way on an offline partition."""

from collections.abc import Iterator

import pytest

from breakglass.services.model import TopicPartition
from tests.lab.asking import election_code, list_offset, reassign_code, reassignments
from tests.lab.scenarios.damaged import Damaged, damaged, ends_on_disk, ends_told

SHIPMENTS = TopicPartition("shipments", 0)
INVALID_REPLICA_ASSIGNMENT = 39
FROM_3_TO_2 = ([2, 1, 3], [2], [3])
"""Replicas, adding, removing."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), "reassigning") as lab:
        yield lab


def test_it_is_offline_while_being_moved(lab: Damaged) -> None:
    state = lab.state(SHIPMENTS)
    assert (state.offline, state.assignment) == (True, (2, 1, 3))
    assert reassignments(lab.cluster) == {SHIPMENTS: FROM_3_TO_2}


def test_the_replica_being_added_is_empty_and_can_be_read(lab: Damaged) -> None:
    assert ends_told(lab) == ends_on_disk(lab) == {SHIPMENTS: {2: 0, 1: 125}}
    assert lab.truth_of(SHIPMENTS).choice(2).committed == 125


def test_r12_it_cannot_be_cancelled_while_it_is_offline(lab: Damaged) -> None:
    code, message = reassign_code(lab.cluster, SHIPMENTS, None)
    assert code == INVALID_REPLICA_ASSIGNMENT
    assert message is not None
    assert "would require an unclean leader election" in message


def test_r12_an_order_of_all_replicas_leaves_it_under_way(lab: Damaged) -> None:
    assert reassign_code(lab.cluster, SHIPMENTS, [1, 2, 3]) == (0, None)
    assert reassignments(lab.cluster) == {SHIPMENTS: ([1, 2, 3], [2], [3])}


def test_an_unclean_election_by_order_works_and_the_reassignment_ends(lab: Damaged) -> None:
    # A busy machine may have kept b1 from its heartbeats: the empty b2 would be elected.
    lab.cluster.wait_unfenced(1, 2)
    assert election_code(lab.cluster, SHIPMENTS) == (0, None)
    lab.cluster.wait_partition("shipments", 0, lambda state: state.leader == 1, "b1 to lead")
    assert list_offset(lab.cluster, 1, SHIPMENTS).offset == 125
    lab.cluster.wait_partition(
        "shipments", 0, lambda state: state.assignment == (1, 2), "the move to end"
    )
    assert reassignments(lab.cluster) == {}
