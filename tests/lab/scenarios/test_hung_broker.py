"""`hung-broker`: one of the brokers that hold the partition accepts, and never answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from breakglass.services.errors import TimedOut
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.truth import Condition
from breakglass.services.lab.wire import Conversation
from breakglass.services.model import TopicPartition
from tests.lab.scenarios.damaged import Damaged, damaged, ends_told

pytestmark = pytest.mark.slow

SHIPMENTS = [TopicPartition("shipments", number) for number in range(2)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), "hung-broker") as lab:
        yield lab


def test_the_hung_broker_is_fenced_and_its_partitions_are_offline(lab: Damaged) -> None:
    assert lab.truth.brokers == {1: Condition.RUNNING, 2: Condition.PAUSED, 3: Condition.DEAD}
    assert lab.cluster.fenced(via=1) == {1: False, 2: True, 3: True}
    for partition in SHIPMENTS:
        assert lab.state(partition).leader is None
        assert set(lab.state(partition).offline_replicas) == {2, 3}


def test_it_is_connected_to_and_does_not_answer(lab: Damaged) -> None:
    address = lab.cluster.broker(2).address(Listener.CLIENT)
    socket.create_connection(address, timeout=2).close()
    with pytest.raises(TimedOut):
        Conversation(address, 1)


def test_the_healthy_broker_tells_what_it_holds(lab: Damaged) -> None:
    assert ends_told(lab) == {partition: {1: 75} for partition in SHIPMENTS}


def test_what_the_hung_one_holds_is_known_to_the_truth_alone(lab: Damaged) -> None:
    for partition in SHIPMENTS:
        truth = lab.truth_of(partition)
        assert (truth.replica(2).readable, truth.replica(2).log_end) == (False, 60)
        assert [choice.broker for choice in truth.choices] == [1]
        assert truth.choice(1).unread == 5
