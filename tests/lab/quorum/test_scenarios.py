"""Each loss of the quorum that the lab plays comes back by the commands that Breakglass prints.

The scenario says which copy is the best, from what it did to the nodes; the commands are not told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.node import Node
from breakglass.services.lab.scenarios import find_scenarios
from breakglass.services.lab.scenarios.quorum import BEST, LATE, LOST
from breakglass.services.lab.scenarios.scenario import perform
from tests.kit.program import breakglass
from tests.lab.backup.producing import committed_messages
from tests.lab.quorum.lagging import Lagged, addresses, copy_of, dump, kill_everything, produce
from tests.lab.quorum.test_return import Lost, follow, planned, prepared

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.xdist_group("quorum-scenarios")]

WRITTEN = {("orders", 0): 100, ("orders", 1): 100, (LATE, 0): 25, (LATE, 1): 25}


def numbers_in(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def left_of(cluster: Cluster, lost: Sequence[int]) -> list[Node]:
    return [node for node in cluster.nodes if node.id not in lost]


@pytest.mark.parametrize(
    ("scenario", "dynamic"),
    [
        ("majority-lost", False),
        ("majority-lost", True),
        ("lagging-copy", False),
        ("controllers-lost", True),
        ("broker-ahead", True),
    ],
)
def test_each_loss_is_recovered_from_the_best_copy_and_every_record_is_read(
    scenario: str, dynamic: bool, tmp_path: Path
) -> None:
    cluster, truth = perform(
        tmp_path / "lab", find_scenarios([scenario]), tethered=True, dynamic=dynamic
    )
    with cluster:
        gone, best = numbers_in(truth.notes[LOST]), numbers_in(truth.notes[BEST])
        nodes = left_of(cluster, gone)
        serving = best == [node.id for node in nodes if node.id > 100]
        if serving:
            cluster.node(best[0]).kill()
        else:
            kill_everything(cluster)
        copies = [f"log:{copy_of(node)}" for node in nodes]
        first = breakglass("quorum", "inspect", *copies, "--json").document["copies"][0]
        ends = {node.id: dump(cluster, copy_of(node)).end for node in nodes}
        assert first["log_end"] == max(ends.values()) == max(ends[one] for one in best)
        voter = nodes[-1].id if nodes[-1].id > 100 else 101
        plan = planned(
            Lost(Lagged(cluster, nodes[-1]), dynamic, tmp_path), tmp_path, *nodes, voter=voter
        )
        document = json.loads(plan.read_text())
        assert document["lost"]["records"] == 0
        ended = prepared(plan, tmp_path / "promoted")
        assert ended.code == 0, ended.err
        started = follow(Lost(Lagged(cluster, nodes[-1]), dynamic, tmp_path), ended.out)
        assert started == ([voter] if serving else [voter, *sorted(started[1:])])
        cluster.wait_ready()
        for (topic, number), count in WRITTEN.items():
            assert len(list(committed_messages(cluster, topic, number))) == count
        assert cluster.partition("orders", 1).assignment == (3, 2, 1)
        produce(cluster, LATE, 2, 5)
        assert len(list(committed_messages(cluster, LATE, 0))) == 30


def test_after_a_blank_majority_every_folder_is_a_stray_that_the_lost_copy_knows(
    tmp_path: Path,
) -> None:
    cluster, truth = perform(tmp_path / "lab", find_scenarios(["blank-majority"]), tethered=True)
    with cluster:
        (survivor,) = numbers_in(truth.notes[BEST])
        kill_everything(cluster)
        named = addresses(*cluster.brokers, cluster.node(survivor))
        copy = ("--copy", f"log:{copy_of(cluster.node(survivor))}")
        document = breakglass("quorum", "strays", *named, *copy, "--json").document
        topics = [one["topic"] for one in document["strays"]]
        assert {topic: topics.count(topic) for topic in topics} == {"orders": 6, LATE: 6}
