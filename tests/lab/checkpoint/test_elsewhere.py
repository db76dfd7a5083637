"""A checkpoint restored into another cluster, where each group resumes at the same record."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.session import ReadAccess
from tests.kit.commits import commit_offsets
from tests.kit.program import Ended, breakglass
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.commands import Program

pytestmark = pytest.mark.slow

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
SECONDS = 60.0
PARTITIONS, START, BATCHES, IN_BATCH = 3, 40, 30, 5
AT_THE_END, LAGGING, FIRST = "at-the-end", "lagging", "at-the-first"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster far away."""
    pace = {"group.initial.rebalance.delay.ms": "0"}
    with Cluster.up(tmp_path / "other", brokers=1, overrides=pace, tethered=True) as cluster:
        yield cluster


def cluster_id(cluster: Cluster) -> str:
    options = ConnectionOptions(bootstrap_server=cluster.bootstrap_servers)
    with ReadAccess(connection_settings(options, {})).reading() as client:
        return client.describe(Deadline.after(SECONDS)).cluster_id


def consumer(cluster: Cluster, group: str) -> Consumer:
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    return Consumer(settings, logger=LOG)


def read(cluster: Cluster, topic: str, partition: int) -> list[Message]:
    """The committed records of a partition, in order."""
    found: list[Message] = []
    with closing(consumer(cluster, "the-test-itself")) as reader:
        reader.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = reader.poll(SECONDS)
            assert message is not None, f"{topic}-{partition} does not end"
            if message.error():
                return found
            found.append(message)


def standing(cluster: Cluster, group: str, topic: str) -> dict[int, int]:
    """Where *group* has committed."""
    with closing(consumer(cluster, group)) as reader:
        asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        found = reader.committed(asked, SECONDS)
        return {at.partition: at.offset for at in found if at.offset != OFFSET_INVALID}


def next_records(cluster: Cluster, topic: str) -> dict[tuple[str, int], bytes | None]:
    """The record that each group reads next in each partition; None: it has read them all."""
    records = {number: read(cluster, topic, number) for number in range(PARTITIONS)}
    found: dict[tuple[str, int], bytes | None] = {}
    for group in (AT_THE_END, LAGGING, FIRST):
        for number, offset in standing(cluster, group, topic).items():
            ahead = (
                record.value() for record in records[number] if (record.offset() or 0) >= offset
            )
            found[group, number] = next(ahead, None)
    return found


@pytest.fixture
def orders(broker: Cluster, tmp_path: Path) -> str:
    """Transactions, some aborted, in logs that begin at an offset; three groups at rest."""
    topic = f"orders-{tmp_path.name.replace('_', '-')[-50:]}"
    create_topic(broker, topic, [[1]] * PARTITIONS)
    servers: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer({**servers, "transactional.id": topic}, logger=LOG)
    producer.init_transactions(SECONDS)
    for batch in range(BATCHES):
        producer.begin_transaction()
        for number in range(PARTITIONS):
            for place in range(IN_BATCH):
                producer.produce(topic, b"%d %d" % (batch, place), partition=number)
        if batch % 4 == 3:
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)
        else:
            producer.commit_transaction(SECONDS)
    admin = AdminClient(servers, logger=LOG)
    asked = [TopicPartition(topic, number, START) for number in range(PARTITIONS)]
    for future in admin.delete_records(asked).values():
        future.result(SECONDS)
    end = BATCHES * (IN_BATCH + 1)
    places = {
        AT_THE_END: dict.fromkeys(range(PARTITIONS), end),
        LAGGING: {0: START + 1, 1: START + 37, 2: end - 4},
        FIRST: {1: START},
    }
    for group, offsets in places.items():
        with closing(consumer(broker, group)) as member:
            held = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
            commit_offsets(member, held)
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

        wait_until(joined, "the member", SECONDS)
        yield


def here(program: Program, command: str, *arguments: str) -> Ended:
    """Run a command that starts no Spark in this process, which takes less time."""
    return breakglass("checkpoint", command, "--store", program.store, *arguments)


@pytest.mark.timeout(600)
def test_a_checkpoint_goes_into_another_cluster_and_each_group_reads_the_same_record_next(
    orders: str,
    broker: Cluster,
    other: Cluster,
    program: Program,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = [
        text
        for group in (AT_THE_END, LAGGING, FIRST)
        for text in ("--group", f"{group}=exactly-once")
    ]
    home = ("--bootstrap-server", broker.bootstrap_servers)
    taken = here(program, "take", "--topics", orders, "--level", "vector", *groups, *home)
    assert taken.code == 0, taken.err
    before = next_records(broker, orders)
    assert {before[AT_THE_END, number] for number in range(PARTITIONS)} == {None}
    assert None not in {before[LAGGING, number] for number in range(PARTITIONS)}
    # The environment is of the cluster that is lost: nothing of it may count.
    monkeypatch.setenv("BREAKGLASS_BOOTSTRAP_SERVER", broker.bootstrap_servers)
    config = tmp_path / "other.properties"
    config.write_text("client.id=disaster-recovery\n")
    own = ("restore", "1", "--map", f"{orders}=restored", "--write")
    refused = here(program, *own, "--to-bootstrap-server", broker.bootstrap_servers)
    assert refused.code == 3
    assert f"leads to cluster {cluster_id(broker)}, of which checkpoint 1 was taken" in refused.err
    there = ("--to-bootstrap-server", other.bootstrap_servers, "--to-command-config", str(config))
    with active(other, LAGGING):
        refused = here(program, *own, *there)
        assert refused.code == 3
        assert f"consumers of {LAGGING} are running, so nothing is restored" in refused.err
    asked = here(program, *own, *there)
    phrase = asked.said[-1].removeprefix("consent: ")
    assert phrase.endswith(f"into restored of cluster {cluster_id(other)}")
    assert (
        f"into cluster {cluster_id(other)}; the checkpoint was taken of {cluster_id(broker)}"
        in asked.err
    )
    done = program.whole(*own, *there, "--consent", phrase, cluster=False)
    assert (done["whole"], done["cluster_id"]) == (True, cluster_id(other))
    assert [topic["verified"] for topic in done["topics"]] == [True]
    assert next_records(other, "restored") == before
    for number in range(PARTITIONS):
        records = [record.value() for record in read(other, "restored", number)]
        assert records == [record.value() for record in read(broker, orders, number)]
