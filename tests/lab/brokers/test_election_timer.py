"""Why no latest moment of an election is ever told: the timer is the active controller's own.

Source: PeriodicTaskControlManager.activate and ControllerServer of Kafka 4.3.1. The timer begins
again with each new active controller, runs only with the controllers' own
auto.leader.rebalance.enable, and waits five minutes after an error.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from breakglass.services.kafka.cluster.broker_settings import read_broker_settings
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.scenarios.replaced_disk import ELECTION_INTERVAL
from tests.lab.brokers.conftest import sender_to
from tests.lab.scenarios.damaged import Damaged, damaged


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    """b4 is back EMPTY, and brokers and controllers look for leaderless partitions hourly."""
    with damaged(tmp_path_factory.mktemp("lab"), "replaced-disk") as lab:
        yield lab


def test_r02_brokers_tell_their_own_interval_and_not_the_controllers(bombs: Damaged) -> None:
    with sender_to(bombs.cluster) as sender:
        told = read_broker_settings(sender, 1, [ELECTION_INTERVAL], Deadline.after(300))
    assert told == {ELECTION_INTERVAL: "3600"}
