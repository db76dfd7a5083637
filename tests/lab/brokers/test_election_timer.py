"""Why no latest moment of an election is ever told: the timer is the active controller's own.

Source: PeriodicTaskControlManager.activate and ControllerServer of Kafka 4.3.1. The timer begins
again with each new active controller, runs only with the controllers' own
auto.leader.rebalance.enable, and waits five minutes after an error.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from breakglass.services.kafka.cluster.broker_settings import read_broker_settings
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.scenarios.replaced_disk import ELECTION_INTERVAL
from breakglass.services.model import TopicPartition
from tests.lab.brokers.conftest import sender_to
from tests.lab.scenarios.damaged import Damaged, damaged

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CARTS = [TopicPartition("carts", number) for number in range(3)]
INTERVAL = 12
"""Seconds between two elections by the timer of the controller, once it is configured."""
RESTARTS = 4
SPELL = INTERVAL * 0.6
"""How long each new controller is left alone."""


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    """b4 is back EMPTY, and brokers and controllers look for leaderless partitions hourly."""
    with damaged(tmp_path_factory.mktemp("lab"), "replaced-disk") as lab:
        yield lab


def test_r02_a_new_active_controller_begins_the_interval_again(bombs: Damaged) -> None:
    """Elected at last, but much later than the interval after the broker came back."""
    controller = bombs.cluster.controllers[0]
    bombs.cluster.configure(controller.id, {ELECTION_INTERVAL: str(INTERVAL)})
    began = time.monotonic()
    for _ in range(RESTARTS):
        controller.kill()
        controller.start()
        until = time.monotonic() + SPELL
        while time.monotonic() < until:
            assert all(bombs.state(partition).leader is None for partition in CARTS)
    assert time.monotonic() - began > 2 * INTERVAL
    for partition in CARTS:
        bombs.cluster.wait_partition(
            partition.topic, partition.partition, lambda state: state.leader == 4, "b4 to lead"
        )


def test_r02_brokers_tell_their_own_interval_and_not_the_controllers(bombs: Damaged) -> None:
    with sender_to(bombs.cluster) as sender:
        told = read_broker_settings(sender, 1, [ELECTION_INTERVAL], Deadline.after(10))
    assert told == {ELECTION_INTERVAL: "3600"}
