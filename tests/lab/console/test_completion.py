"""The shell is offered the topics of a cluster that answers."""

from __future__ import annotations

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from tests.kit.program import offered
from tests.kit.waiting import wait_until


def test_topics_of_the_cluster_are_offered_one_after_the_other(three_brokers: Cluster) -> None:
    for topic in ("offered-one", "offered-two"):
        create_topic(three_brokers, topic, [[1, 2, 3]])
    line = f"breakglass triage --bootstrap-server {three_brokers.bootstrap_servers} --topics "
    # Brokers whose machine is busy may answer too late for the shell, which then offers nothing.
    found: list[str] = []
    wait_until(lambda: found.extend(offered(f"{line}offered-")) or found, "an answer in time")
    assert found == ["offered-one", "offered-two"]
    found.clear()
    wait_until(
        lambda: found.extend(offered(f"{line}offered-one,off")) or found, "an answer in time"
    )
    assert found == ["offered-one,offered-two"]
