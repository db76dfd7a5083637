"""What a rescue saved, put back behind the log that was elected: each record once."""

import json
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from breakglass.services.lab.cluster import Cluster
from breakglass.services.model import TRANSACTION_STATE
from tests.kit.program import breakglass
from tests.lab.backup.producing import LOG
from tests.lab.console.commands import agreeing, on
from tests.lab.recover.rescue.conftest import (
    ABORTED,
    COMMITTED,
    COORDINATOR,
    OPEN,
    REFUNDS,
    SECONDS,
    SHARED,
)
from tests.lab.recover.rescue.test_from_log import folder_of
from tests.lab.recover.rescue.test_rescue import cat, elect, elections, only_place
from tests.lab.scenarios.damaged import Damaged

SINCE = [b"since-0", b"since-1"]


def records(cluster: Cluster) -> list[tuple[bytes | None, int]]:
    """Key and timestamp of every committed record of the topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "independent-reader",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        },
        logger=LOG,
    )
    found: list[tuple[bytes | None, int]] = []
    consumer.assign([Place(REFUNDS.topic, REFUNDS.partition, 0)])
    while True:
        message = consumer.poll(SECONDS)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            consumer.close()
            return found
        found.append((message.key(), message.timestamp()[1]))


@pytest.mark.main
def test_what_was_rescued_is_put_back_once_and_kafkas_own_topics_are_left_as_they_are(
    lab: Damaged, tmp_path: Path
) -> None:
    plan = elections(tmp_path, refunds_0=2)
    ended = elect(lab.cluster, plan, "--store", tmp_path / "saved")
    assert ended.code == 0, ended.err
    place = only_place(lab.cluster, REFUNDS)
    saved = [
        (document["key"].encode(), document["timestamp"]) for document in cat(place)[:COMMITTED]
    ]
    again, stamp = saved[2]
    producer = Producer({"bootstrap.servers": lab.cluster.bootstrap_servers}, logger=LOG)
    for key in SINCE:
        producer.produce(REFUNDS.topic, partition=0, key=key, value=key, timestamp=7)
    producer.produce(REFUNDS.topic, partition=0, key=again, value=again, timestamp=stamp)
    assert producer.flush(SECONDS) == 0

    late = Consumer({"bootstrap.servers": lab.cluster.bootstrap_servers, "group.id": "late"})
    late.commit(offsets=[Place(REFUNDS.topic, REFUNDS.partition, 10_000)], asynchronous=False)
    late.close()
    saved_in = place.parents[2]
    ended = on(lab.cluster, "backup", "restore", "--tail-of", saved_in, "--store", saved_in)
    assert f"refunds -> refunds  {COMMITTED - 1} records into the topic that is there" in ended.err
    assert "group late committed 10000 on refunds-0, past the end of its log" in ended.err

    words = ["backup", "restore", "--tail-of", plan, "--store", saved_in]
    words += ["--state", tmp_path / "state", "--json"]
    ended, phrases = agreeing(lab.cluster, *words)
    assert ended.code == 0, ended.err
    assert phrases == [f"restore {COMMITTED - 1} records into refunds"]
    (done,) = ended.document["topics"]
    assert (done["records"], done["verified"]) == (COMMITTED - 1, True)
    assert f"refunds  {ABORTED} records are left out: of an aborted transaction" in ended.err
    assert f"refunds  {OPEN} records are left out: of a transaction without an end" in ended.err
    assert "refunds  1 records are left out: in the topic already" in ended.err
    now = records(lab.cluster)
    assert now[SHARED:] == [*((key, 7) for key in SINCE), saved[2], *saved[:2], *saved[3:]]

    ended = on(lab.cluster, *words)
    assert ended.code == 0
    assert ended.said[-1] == "Nothing is to be put back."
    assert records(lab.cluster) == now

    _save_of_the_coordinator(lab, place.parents[2])
    file = json.loads(plan.read_text())
    named = {"topic": TRANSACTION_STATE, "partition": 0, "designatedLeader": COORDINATOR}
    plan.write_text(json.dumps({"partitions": [*file["partitions"], named]}))
    ended = on(lab.cluster, *words)
    assert (ended.code, ended.said[-1]) == (0, "Nothing is to be put back.")
    assert f"{TRANSACTION_STATE}: no client can write to Kafka's own topics" in ended.err
    ended = on(lab.cluster, *words, "--topics", TRANSACTION_STATE, "--write")
    assert (ended.code, TRANSACTION_STATE in ended.err) == (3, True)
    admin = AdminClient({"bootstrap.servers": lab.cluster.bootstrap_servers}, logger=LOG)
    internal = ConfigResource(ConfigResource.Type.TOPIC, TRANSACTION_STATE)
    settings = admin.describe_configs([internal])[internal].result(SECONDS)
    assert settings["retention.ms"].value != "-1", "its settings are as they were"


def _save_of_the_coordinator(lab: Damaged, root: Path) -> None:
    """Beside what was rescued under *root*: what the coordinator's log has."""
    saved = root.parent / "internal"
    named = ("--topics", TRANSACTION_STATE, "--while-running", "--rescue-to", saved)
    ended = breakglass("rescue", "--source", f"log:{folder_of(lab, COORDINATOR)}", *named)
    assert ended.code == 0, ended.err
    (found,) = saved.glob(f"*/*/b{COORDINATOR}/{TRANSACTION_STATE}")
    shutil.copytree(found, root / found.parent.name / found.name)
