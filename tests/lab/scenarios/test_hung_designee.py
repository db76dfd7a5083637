"""`hung-designee`: the replica to elect hangs, and the controller takes it for alive (R6)."""

import pytest

from breakglass.services.errors import TimedOut
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.topics import elect_unclean, reassign
from breakglass.services.lab.wire import Conversation
from breakglass.services.model import TopicPartition
from tests.lab.scenarios.damaged import Damaged, lab_after

PAYMENTS = TopicPartition("payments", 0)


lab = lab_after("hung-designee", options={"hang": "no"})


def test_r06_hanging_it_is_elected_all_the_same_and_serves_nothing(lab: Damaged) -> None:
    lab.cluster.broker(1).pause()
    reassign(lab.cluster, {PAYMENTS: (1, 2, 3)})
    elect_unclean(lab.cluster, PAYMENTS)
    state = lab.cluster.wait_partition(
        "payments", 0, lambda state: state.leader == 1, "b1 to lead", via=2
    )
    assert state.isr == (1,)
    assert lab.cluster.fenced(via=2)[1] is False
    with pytest.raises(TimedOut):
        Conversation(lab.cluster.broker(1).address(Listener.CLIENT), 1)
