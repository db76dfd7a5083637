"""The course that most scenarios follow: brokers are lost one by one until none leads any more.

b2 is lost first, then b1, then b3 and, if there is one, b4. b1 and b2 come back, having missed
what was written since. b3 stays away. b4 may come back last, with empty disks.
"""

from __future__ import annotations

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.damage import (
    bring_back_empty,
    hold_followers,
    lose,
    lose_last,
    release,
)
from breakglass.services.lab.scenarios.scenario import LabDamage, Shape


def _hold(cluster: Cluster) -> None:
    hold_followers(cluster, 2, 1, 3)


def _lose_b2(cluster: Cluster) -> None:
    """b2 takes to its grave what it wrote while the others were held."""
    cluster.broker(2).kill()
    release(cluster, *[id for id in (1, 3) if cluster.broker(id).paused])
    lose(cluster, 2)


def _lose_the_last(cluster: Cluster) -> None:
    lose_last(cluster, *[node.id for node in cluster.brokers if node.id > 2], back=(1, 2))


B2_ALONE = LabDamage("b2 is alone", _hold)
"""b1 and b3 fetch nothing more; only what b2 leads may be written to, and only with acks=1."""
B2_LOST = LabDamage("b2 is lost", _lose_b2)
B1_LOST = LabDamage("b1 is lost", lambda cluster: lose(cluster, 1))
LAST_LOST = LabDamage("the last leaders are lost, b1 and b2 are back", _lose_the_last)
B4_EMPTY = LabDamage("b4 is back with empty disks", lambda cluster: bring_back_empty(cluster, 4))

QUICK_TO_FENCE = Shape(
    overrides={
        "broker.session.timeout.ms": "4000",
        "replica.high.watermark.checkpoint.interval.ms": "500",
    }
)
"""Each loss is waited out; below this a busy machine fences brokers that are well. A killed
broker comes back with the high watermark that it had, not with none, whatever the moment."""
COURSE = (B2_ALONE, B2_LOST, B1_LOST, LAST_LOST, B4_EMPTY)
