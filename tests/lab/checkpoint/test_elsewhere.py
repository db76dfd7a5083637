"""A checkpoint restored into another cluster, where each group resumes at the same record."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.pipeline.session import Spark
from tests.kit.waiting import DEADLINE_SECONDS, wait_until
from tests.lab.asking import transactional
from tests.lab.backup.independent import contents, delivered
from tests.lab.backup.producing import commit, consumer, delete_before
from tests.lab.checkpoint.commands import Program
from tests.lab.conftest import FreshCluster

PARTITIONS, START, BATCHES, IN_BATCH = 3, 40, 30, 5
END = BATCHES * (IN_BATCH + 1)
PLACES = {
    "at-the-end": dict.fromkeys(range(PARTITIONS), END),
    "lagging": {0: START + 1, 1: START + 37, 2: END - 4},
    "at-the-first": {1: START},
}
"""Where each group resumes."""


def next_records(cluster: Cluster, topic: str) -> dict[tuple[str, int], object]:
    """The record that each group reads next in each partition; None: it has read them all."""
    found: dict[tuple[str, int], object] = {}
    asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    for group in PLACES:
        with closing(consumer(cluster, group)) as reader:
            for at in reader.committed(asked, DEADLINE_SECONDS):
                if at.offset != OFFSET_INVALID:
                    records = delivered(cluster, topic, at.partition)
                    ahead = (content for offset, content in records if offset >= at.offset)
                    found[group, at.partition] = next(ahead, None)
    return found


@pytest.fixture
def orders(whole_broker: Cluster, topic: str) -> str:
    """Transactions, some aborted, in logs that begin at an offset; three groups at rest."""
    create_topic(whole_broker, topic, [[1]] * PARTITIONS)
    writer = transactional(whole_broker, topic)
    for batch in range(BATCHES):
        writer.begin_transaction()
        for number in range(PARTITIONS):
            for place in range(IN_BATCH):
                writer.produce(topic, b"%d %d" % (batch, place), partition=number)
        writer.flush(DEADLINE_SECONDS)
        end = writer.abort_transaction if batch % 4 == 3 else writer.commit_transaction
        end(DEADLINE_SECONDS)
    for number in range(PARTITIONS):
        delete_before(whole_broker, topic, START, number)
    for group, offsets in PLACES.items():
        for number, offset in offsets.items():
            commit(whole_broker, topic, group, offset, number)
    return topic


@contextmanager
def active(cluster: Cluster, group: str) -> Iterator[None]:
    """A member of *group* that reads another topic of the cluster."""
    create_topic(cluster, "others", [[1]])
    with closing(consumer(cluster, group)) as member:
        member.subscribe(["others"])

        def joined() -> bool:
            member.poll(0.1)
            return bool(member.assignment())

        wait_until(joined, "the member")
        yield


def test_a_checkpoint_goes_into_another_cluster_and_each_group_reads_the_same_record_next(
    orders: str,
    whole_broker: Cluster,
    fresh_cluster: FreshCluster,
    spark: Spark,
    program: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = fresh_cluster(brokers=1)
    own, there = (one.layout.cluster_id for one in (whole_broker, other))
    groups = [word for group in PLACES for word in ("--group", f"{group}=exactly-once")]
    program.whole("take", "--topics", orders, "--level", "vector", *groups)
    before = next_records(whole_broker, orders)
    assert {before["at-the-end", number] for number in range(PARTITIONS)} == {None}
    assert None not in {before["lagging", number] for number in range(PARTITIONS)}
    # The environment is of the cluster that is lost: nothing of it may count.
    monkeypatch.setenv("BREAKGLASS_BOOTSTRAP_SERVER", whole_broker.bootstrap_servers)
    config = tmp_path / "other.properties"
    config.write_text("client.id=disaster-recovery\n")
    words: tuple[str, ...] = (
        "1",
        "--map",
        f"{orders}=restored",
        "--write",
        "--to-bootstrap-server",
    )
    to_itself = program.here("restore", *words, whole_broker.bootstrap_servers, cluster=False)
    assert (to_itself.code, own in to_itself.err) == (3, True)
    words += (other.bootstrap_servers, "--to-command-config", str(config))
    with active(other, "lagging"):
        refused = program.here("restore", *words, cluster=False)
        assert (refused.code, "lagging" in refused.err) == (3, True)
    phrase = program.here("restore", *words, cluster=False).said[-1].removeprefix("consent: ")
    assert phrase.endswith(f"into restored of cluster {there}")
    spark.context()
    done = program.whole("restore", *words, "--consent", phrase, cluster=False)
    assert (done["whole"], done["cluster_id"]) == (True, there)
    assert [topic["verified"] for topic in done["topics"]] == [True]
    assert next_records(other, "restored") == before
    for number in range(PARTITIONS):
        assert contents(other, "restored", number) == contents(whole_broker, orders, number)
