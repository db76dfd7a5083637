"""An unclean election behind our back: the new log is never joined to the copy of the old one."""

import json
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Deleted

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern, produce
from breakglass.services.lab.topics import create_topic, elect_unclean
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.backup import said
from breakglass.services.pipeline.restore.options import BELOW
from breakglass.services.pipeline.session import Spark
from breakglass.services.pipeline.source import UNSEEN_CUT
from tests.kit.clusters import access_to
from tests.kit.waiting import wait_until
from tests.lab.backup.backups import backing_up
from tests.lab.backup.commands import finish
from tests.lab.backup.independent import delivered, stored
from tests.lab.backup.producing import admin
from tests.lab.backup.restores import Restore
from tests.lab.backup.streaming import following
from tests.lab.console.commands import elections


def fill(cluster: Cluster, *topics: str) -> None:
    """Twenty records, of which b2 does not have the second ten; it is down."""
    for topic in topics:
        create_topic(cluster, topic, [[1, 2]], {"min.insync.replicas": "1"})
        produce(cluster, topic, 0, 10)
        # On a busy machine b2 may have been fenced meanwhile, and have none of them.
        cluster.wait_partition(topic, 0, lambda state: set(state.isr) == {1, 2}, "b2 in the ISR")
    cluster.node(2).kill()
    for topic in topics:
        cluster.wait_partition(topic, 0, lambda state: state.isr == (1,), "an ISR of b1 alone")
        produce(cluster, topic, 0, 10, pattern=Pattern(label="lost", start=10))


def lose_to_b2(cluster: Cluster, *topics: str) -> None:
    """Kill b1 and let b2 lead."""
    cluster.node(1).kill()
    cluster.node(2).start()
    cluster.wait_unfenced(2)
    for topic in topics:
        cluster.wait_partition(topic, 0, lambda state: state.offline, "no leader", via=2)
    elect_unclean(cluster, *(TopicPartition(topic, 0) for topic in topics))
    for topic in topics:
        cluster.wait_partition(topic, 0, lambda state: state.leader == 2, "b2 leading", via=2)


def test_a_log_that_was_cut_begins_a_new_generation(
    spark: Spark, topic: str, tmp_path: Path
) -> None:
    """By the time of the backup the new log has grown past the end of the old one."""
    with Cluster.up(tmp_path / "lab", brokers=2, tethered=True) as cluster:
        fill(cluster, topic)
        with backing_up(access_to(cluster), spark, tmp_path / "backup") as back_up:
            assert back_up.topic(topic).partitions[0].end == 20
            before = back_up.manifest(topic)

            lose_to_b2(cluster, topic)
            produce(cluster, topic, 0, 30, pattern=Pattern(label="new"))

            report = back_up.topic(topic)
            assert report.generation == 2
            assert "unclean election" in report.new_generation
            assert back_up.manifest(topic) == before
            keys = [record.key for record in back_up.records(f"{topic}~2")]

            restore = Restore(back_up, tmp_path / "restores")
            # The plan elects a partition of which nothing was saved as well.
            elected = TopicPartition(topic, 0), TopicPartition("__transaction_state", 0)
            plan = restore.tail_plan(*elected)
            assert plan.records == 10
            (number,) = [at for at, one in enumerate(plan.topics) if one.records]
            done = restore(plan, number)
            assert (done.error, done.verified) == ("", True)
            assert restore.tail_plan(TopicPartition(topic, 0)).records == 0
            back_up.topic(topic)
            put_back = [record.key for record in back_up.records(f"{topic}~2")][len(keys) :]
    assert put_back == [b"lost-%d" % number for number in range(10, 20)]
    assert keys == [b"r-%d" % number for number in range(10)] + [
        b"new-%d" % number for number in range(30)
    ]


@pytest.mark.parametrize("start", [20, 25], ids=["where the backup ends", "behind a loss"])
def test_b33_b34_a_cut_that_was_deleted_with_its_records_leaves_the_backup_not_proved(
    spark: Spark, topic: str, tmp_path: Path, start: int
) -> None:
    """The log that was written again has no record of the backup left; none of it is put back."""
    with Cluster.up(tmp_path / "lab", brokers=2, tethered=True) as cluster:
        fill(cluster, topic)
        with backing_up(access_to(cluster), spark, tmp_path / "backup") as back_up:
            back_up.topic(topic)
            lose_to_b2(cluster, topic)
            produce(cluster, topic, 0, 30, pattern=Pattern(label="new"))
            client = admin(cluster)
            # Its answer waits for b1; the leader's log is cut at once.
            client.delete_records([Deleted(topic, 0, start)])
            wait_until(
                lambda: back_up.sources(topic).partitions[0].log_start == start, "records deleted"
            )
            report = back_up(topic)
            (partition,) = report.partitions
            assert (report.whole, report.topics[0].generation) == (False, 1)
            assert [gap.end for gap in partition.lost] == [start] * (start > 20)
            (doubt,) = back_up.manifest(topic).partitions[0].unproved
            assert (doubt.start, doubt.end, doubt.why) == (0, 20, UNSEEN_CUT)
            said(back_up.store, report)
            (again,) = back_up(topic).partitions
            assert not again.unproved, "it is said once; verify and status say it from then on"
            assert back_up.manifest(topic).partitions[0].unproved == (doubt,)
            plan = elections(tmp_path, {TopicPartition(topic, 0): 2})
            words = ("--tail-of", str(plan), "--store", str(back_up.root))
            code, out, err = finish(cluster, "restore", *words, "--dry-run")
            (tail,) = json.loads(out)["plan"]["topics"]
            assert (code, tail["partitions"], tail["left_out"]) == (0, [], {BELOW: 20})
            code, _, err = finish(cluster, "restore", *words)
            assert (code, tail["elsewhere"] in err) == (1, True)


def test_a_log_that_is_cut_beside_a_stream_begins_a_new_generation(
    spark: Spark, topic: str, tmp_path: Path
) -> None:
    with Cluster.up(tmp_path / "lab", brokers=2, tethered=True) as cluster:
        fill(cluster, topic)
        with backing_up(access_to(cluster), spark, tmp_path / "backup") as back_up:
            with following(back_up, topic, every=1.0) as followed:
                followed.await_end(topic, 20)
                before = stored(back_up.root / topic, 0)
                lose_to_b2(cluster, topic)
                produce(cluster, topic, 0, 5, pattern=Pattern(label="new"))
                followed.await_true((back_up.root / f"{topic}~2").is_dir)
                followed.await_end(f"{topic}~2", 15)
                produce(cluster, topic, 0, 10, pattern=Pattern(label="newer"))
                followed.await_end(f"{topic}~2", 25)
            assert stored(back_up.root / topic, 0) == before
            assert stored(back_up.root / f"{topic}~2", 0) == delivered(cluster, topic, 0)
