"""`reassigning`: a reassignment that nobody can finish is under way on an offline partition."""

from breakglass.services.model import TopicPartition
from tests.lab.asking import reassign_code, reassignments
from tests.lab.scenarios.damaged import Damaged, lab_after

SHIPMENTS = TopicPartition("shipments", 0)
INVALID_REPLICA_ASSIGNMENT = 39


lab = lab_after("reassigning")


def test_r12_it_cannot_be_cancelled_while_it_is_offline(lab: Damaged) -> None:
    code, message = reassign_code(lab.cluster, SHIPMENTS, None)
    assert code == INVALID_REPLICA_ASSIGNMENT
    assert message is not None
    assert "would require an unclean leader election" in message


def test_r12_an_order_of_all_replicas_leaves_it_under_way(lab: Damaged) -> None:
    assert reassign_code(lab.cluster, SHIPMENTS, [1, 2, 3]) == (0, None)
    assert reassignments(lab.cluster) == {SHIPMENTS: ([1, 2, 3], [2], [3])}
