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
    assert offered_in_time(f"{line}offered-") == ["offered-one", "offered-two"]
    assert offered_in_time(f"{line}offered-one,off") == ["offered-one,offered-two"]


def offered_in_time(line: str) -> list[str]:
    """What is first offered: brokers of a busy machine may answer too late for a shell."""
    found: list[str] = []

    def is_offered() -> bool:
        found.extend(offered(line))
        return bool(found)

    wait_until(is_offered, "topics that are offered in time")
    return found
