"""What a broker that returns and leads cuts from others: said before, saved, and then so.

b2 leads `alone` and takes records by acks=1 that b1 and b3 never get; b1 leads it afterwards. Of
`followed` b1 is the only leader. b1 dies last, and b2 and b3 are back.
"""

import json
from pathlib import Path
from typing import Any

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.damage import (
    QUICK_TO_FENCE,
    hold_followers,
    lose,
    lose_last,
    release,
)
from breakglass.services.lab.scenarios.scenario import Scenario, Stage, alone
from breakglass.services.lab.truth import Expectation
from breakglass.services.model import TopicPartition
from tests.kit.program import breakglass
from tests.lab.asking import on_disk
from tests.lab.console.commands import on
from tests.lab.scenarios.damaged import cluster_after

SHARED, STRANDED, LATER = 40, 7, 3
ALONE, FOLLOWED = TopicPartition("alone", 0), TopicPartition("followed", 0)


def _break(stage: Stage) -> list[Expectation]:
    cluster = stage.cluster
    stage.create(ALONE.topic, [(2, 1, 3)])
    stage.create(FOLLOWED.topic, [(1, 2, 3)])
    stage.write([ALONE, FOLLOWED], SHARED)
    hold_followers(cluster, 2, 1, 3)
    stage.write([ALONE], STRANDED, acks="1")
    cluster.broker(2).kill()
    release(cluster, 1, 3)
    lose(cluster, 2)
    stage.write([ALONE, FOLLOWED], LATER)
    lose(cluster, 3)
    stage.write([FOLLOWED], LATER)
    lose_last(cluster, 1, back=(2, 3))
    return []


BROKEN = Scenario("before-return", __doc__, alone(_break), shape=QUICK_TO_FENCE)


broken = cluster_after(BROKEN)
"""Its one test starts b1."""


def test_a_broker_that_cannot_be_read_is_to_return_first(broken: Cluster, tmp_path: Path) -> None:
    broken.broker(3).pause()
    ended = on(broken, "rescue", "--before-return", 1, "--to", tmp_path)
    broken.broker(3).resume()
    broken.wait_unfenced(3)
    assert ended.code == 1
    assert "b3 could not be read: if b1 leads first, b3 cuts what it alone has" in ended.err
    assert "If b3 can return, let b3 return first, and run this again" in ended.err
    assert "b2 could not be read" not in ended.err
    assert ended.said[-1] == "the lines above name what is cut, or may be, and was not saved"


def test_what_b2_alone_holds_is_said_and_saved_before_b1_is_started(
    broken: Cluster, tmp_path: Path
) -> None:
    found: dict[str, dict[str, Any]] = {
        partition["topic"]: partition
        for partition in on(broken, "triage", "--json", "--brief").document["partitions"]
    }
    assert {each["action"] for each in found.values()} == {"start b1"}
    assert found["followed"]["cut_by_return"]["held_by"] == [2, 3]
    cut = found["alone"]["cut_by_return"]
    assert (cut["broker"], cut["held_by"], cut["at_least"]) == (1, [2, 3], STRANDED)
    assert "unknown" in cut["records"]
    assert cut["rescue"] == "breakglass rescue --before-return 1"
    shown = on(broken, "triage", "--show-replica-info")
    assert "breakglass rescue --before-return 1" in shown.err

    before = {
        partition: on_disk(broken, 2, partition).identities for partition in (ALONE, FOLLOWED)
    }
    _, *words = cut["rescue"].split()
    saved = on(broken, *words, "--to", tmp_path, "--json")
    assert saved.code == 0, saved.err
    assert {each["topic"] for each in saved.document["partitions"]} == {ALONE.topic, FOLLOWED.topic}
    (partition,) = [each for each in saved.document["partitions"] if each["topic"] == ALONE.topic]
    (place,) = [place for place in partition["saved"] if place["broker"] == 2]

    broken.broker(1).start()
    broken.wait_partition("alone", 0, lambda state: {1, 2} <= {*state.isr}, "b2 to follow")
    broken.wait_partition("followed", 0, lambda state: {1, 2} <= {*state.isr}, "b2 to follow")
    lost = before[ALONE] - on_disk(broken, 2, ALONE).identities
    assert len(lost) == STRANDED
    printed = breakglass("backup", "cat", place["path"], "--json").out.splitlines()
    assert {offset for _, offset in lost} <= {json.loads(line)["offset"] for line in printed}
    assert before[FOLLOWED] <= on_disk(broken, 2, FOLLOWED).identities


def test_what_is_not_there_to_be_cut_is_said(broken: Cluster, tmp_path: Path) -> None:
    for topic in ("alone", "followed"):
        broken.wait_partition(topic, 0, lambda state: 3 in state.isr, "b3 to follow")
    ended = on(broken, "rescue", "--before-return", 3, "--to", tmp_path)
    assert ended.code == 0
    assert "b3 cuts nothing of other replicas when it returns" in ended.err
