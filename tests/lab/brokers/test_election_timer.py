"""Why no latest moment of an election is ever told: the timer is the active controller's own.

Source: PeriodicTaskControlManager.activate and ControllerServer of Kafka 4.3.1. The timer begins
again with each new active controller, runs only with the controllers' own
auto.leader.rebalance.enable, and waits five minutes after an error.
"""

from __future__ import annotations

from pathlib import Path

from breakglass.services.kafka.cluster.broker_settings import read_broker_settings
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.replaced_disk import ELECTION_INTERVAL
from tests.lab.brokers.conftest import sender_to


def test_r02_brokers_tell_their_own_interval_and_not_the_controllers(tmp_path: Path) -> None:
    cluster = Cluster.plan(tmp_path / "lab", brokers=1, tethered=True)
    cluster.configure(1, {ELECTION_INTERVAL: "3600"})
    cluster.configure(101, {ELECTION_INTERVAL: "1800"})
    with cluster:
        cluster.start()
        with sender_to(cluster) as sender:
            told = read_broker_settings(sender, 1, [ELECTION_INTERVAL], Deadline.after(300))
    assert told == {ELECTION_INTERVAL: "3600"}
