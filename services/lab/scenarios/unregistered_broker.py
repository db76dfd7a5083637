"""`unregistered-broker`: the assignment names a broker that the cluster has forgotten (R12)."""

from __future__ import annotations

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.damage import B1_LOST, B2_LOST, LAST_LOST
from breakglass.services.lab.scenarios.scenario import LabDamage, Scenario, Script
from breakglass.services.lab.scenarios.stage import Stage
from breakglass.services.lab.tools import CLUSTER, run_tool
from breakglass.services.lab.truth import Expectation, TrueVerdict

TOPIC = "archive"
ASSIGNMENTS = ((3, 1, 2), (3, 2, 1))


def _script(stage: Stage) -> Script:
    partitions = stage.create(TOPIC, ASSIGNMENTS)
    stage.write(partitions, 100)
    yield B2_LOST
    stage.write(partitions, 25)
    yield B1_LOST
    stage.write(partitions, 10)
    yield LAST_LOST
    yield LabDamage("b3 is unregistered", _unregister)
    first, second = partitions
    return [
        Expectation(
            first,
            TrueVerdict.WAIT,
            broker=3,
            designee=1,
            why="b3 led last and is unregistered; b1 holds more than b2 and is the first live one",
            if_gone=TrueVerdict.SAFE,
        ),
        Expectation(
            second,
            TrueVerdict.STUCK,
            broker=None,
            designee=None,
            why="b3 led last and is unregistered, and no order that names it is taken any more",
        ),
    ]


def _unregister(cluster: Cluster) -> None:
    """By Kafka's own tool: kafka-python has no schema of the request."""
    arguments = ["unregister", "--bootstrap-server", cluster.lab_bootstrap, "--id", "3"]
    run_tool(cluster.kafka, CLUSTER, arguments).check()
    cluster.wait_unregistered(3)


SCENARIO = Scenario("unregistered-broker", __doc__, _script)
