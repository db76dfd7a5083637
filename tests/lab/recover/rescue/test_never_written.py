"""A partition that never had a record: its empty files are whole, and nothing of it is lost."""

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios.damage import QUICK_TO_FENCE, lose, lose_last
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import EpochHistory, TopicPartition
from breakglass.services.recovery.rescue.broker_folder import EPOCHS
from breakglass.services.recovery.rescue.past_leader import written_epochs
from tests.lab.conftest import FreshCluster
from tests.lab.console.commands import on

NEVER, PAIR = TopicPartition("never", 0), "pair"


def disks(cluster: Cluster, broker: int, option: str = "--source") -> list[str]:
    dirs = cluster.broker(broker).layout.log_dirs
    return [word for each in dirs for word in (option, f"log:{each}")]


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
    assert (folder / EPOCHS).read_text().splitlines() in ([], ["0", "0"])
    assert written_epochs(folder, 0) == EpochHistory((), 0)
    ended = on(cluster, "can-start", *disks(cluster, 3), "--json")
    (found,) = [one for one in ended.document["partitions"] if one["topic"] == NEVER.topic]
    assert "damaged" not in str(found) + ended.err, found
    assert ended.code == 0, ended.err


def test_r47_of_two_dead_brokers_each_may_return_where_nothing_was_ever_written(
    fresh_cluster: FreshCluster,
) -> None:
    cluster = fresh_cluster(overrides=QUICK_TO_FENCE.overrides)
    create_topic(cluster, PAIR, [(2, 3)])
    cluster.wait_until(lambda: cluster.broker(3).partition_folder(PAIR, 0) is not None, "b3's log")
    lose(cluster, 3)
    lose_last(cluster, 2)
    assert on(cluster, "can-start", *disks(cluster, 2)).code == 1
    both = on(cluster, "can-start", *disks(cluster, 2), *disks(cluster, 3, "--beside"))
    assert both.code == 0, both.err
    assert on(cluster, "can-start", *disks(cluster, 2), "--gone", 3).code == 0
