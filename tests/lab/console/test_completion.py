"""The shell is offered the topics of a cluster that answers."""

from __future__ import annotations

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from tests.kit.program import offered


def test_topics_of_the_cluster_are_offered_one_after_the_other(three_brokers: Cluster) -> None:
    for topic in ("offered-one", "offered-two"):
        create_topic(three_brokers, topic, [[1, 2, 3]])
    line = f"breakglass triage --bootstrap-server {three_brokers.bootstrap_servers} --topics "
    assert offered(f"{line}offered-") == ["offered-one", "offered-two"]
    assert offered(f"{line}offered-one,off") == ["offered-one,offered-two"]
