"""A partition that never had a record: its empty files are whole, and nothing of it is lost."""

from __future__ import annotations

import pytest

from breakglass.services.lab.scenarios.damage import QUICK_TO_FENCE
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import EpochHistory, TopicPartition
from breakglass.services.recovery.rescue.past_leader import CHECKPOINT, written_epochs
from tests.lab.conftest import FreshCluster
from tests.lab.console.commands import on

NEVER = TopicPartition("never", 0)


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_r31_kafkas_own_empty_checkpoint_is_whole_and_its_broker_may_return(
    fresh_cluster: FreshCluster, version: str
) -> None:
    cluster = fresh_cluster(kafka_version=version, overrides=QUICK_TO_FENCE.overrides)
    create_topic(cluster, NEVER.topic, [(1, 2, 3)])
    node = cluster.broker(3)
    cluster.wait_until(lambda: node.partition_folder(NEVER.topic, 0) is not None, "b3's replica")
    node.stop()
    cluster.wait_fenced(3)
    folder = node.partition_folder(NEVER.topic, 0)
    assert folder is not None
    assert (folder / CHECKPOINT).read_text().splitlines() in ([], ["0", "0"])
    assert written_epochs(folder, 0) == EpochHistory((), 0)
    sources = [word for each in node.layout.log_dirs for word in ("--source", f"log:{each}")]
    ended = on(cluster, "return", *sources, "--json")
    (found,) = [one for one in ended.document["partitions"] if one["topic"] == NEVER.topic]
    assert "damaged" not in str(found) + ended.err, found
    assert ended.code == 0, ended.err
