"""Brokers whose advertised names do not resolve here, behind TLS and OAUTHBEARER.

Breakglass's own client knows the way to them, and librdkafka does not.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from breakglass.services.connection.security import confluent_config
from breakglass.services.lab.topics import create_topic
from tests.kit.hidden import CLIENT_SECRET, HiddenCluster, hidden_cluster, hidden_name
from tests.kit.program import Ended, breakglass
from tests.kit.running import running
from tests.kit.waiting import wait_until
from tests.lab.asking import NO_LOG
from tests.lab.ksql.test_followed import wait_for
from tests.lab.ksql.topics import SETTINGS, CommandTopic
from tests.unit.metastore.generating import Generator

SERVICE = "hidden_"


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiddenCluster]:
    with hidden_cluster(tmp_path_factory.mktemp("hidden")) as made:
        yield made


@pytest.fixture(scope="module")
def topic(hidden: HiddenCluster) -> CommandTopic:
    """A command topic that broker 2 leads: broker 1 answers the bootstrap."""
    made = CommandTopic(hidden.cluster, SERVICE)
    create_topic(hidden.cluster, made.name, [[2]], SETTINGS)
    made.produce(Generator(7).records(12))
    return made


def asked(hidden: HiddenCluster, *words: object) -> Ended:
    return breakglass("metastore", *words, "--service-id", SERVICE, *hidden.words)


def consented(hidden: HiddenCluster, *words: object) -> Ended:
    """The same command again, with the phrase that its refusal names."""
    refused = asked(hidden, *words, "--write")
    assert refused.code == 3, refused.err
    phrase = refused.consent
    return asked(hidden, *words, "--write", "--consent", phrase)


def test_by_itself_librdkafka_does_not_reach_these_brokers(hidden: HiddenCluster) -> None:
    for broker in hidden.tunnels:
        with pytest.raises(socket.gaierror):
            socket.getaddrinfo(hidden_name(broker), 9093)
    alone = confluent_config(hidden.access.settings)
    consumer = Consumer({**alone, "group.id": "tests"}, logger=NO_LOG)
    consumer.poll(0)
    with closing(consumer), pytest.raises(KafkaException):
        consumer.get_watermark_offsets(TopicPartition("absent", 0), timeout=2)


def test_a_metastore_is_backed_up_read_written_and_restored_there(
    hidden: HiddenCluster, topic: CommandTopic, tmp_path: Path
) -> None:
    before = topic.read()
    backed_up = asked(hidden, "backup", "--store", tmp_path, "--json")
    assert backed_up.code == 0, backed_up.err
    file = tmp_path / json.loads(backed_up.out.splitlines()[-1])["file"]
    listed = asked(hidden, "list", "--json")
    assert (listed.code, listed.document["degraded"]) == (0, None), listed.err

    create_topic(hidden.cluster, "orders", [[1]])
    statement = "CREATE STREAM S9 (ID INT KEY) WITH (KAFKA_TOPIC='orders', FORMAT='JSON')"
    submitted = consented(hidden, "submit", statement, "--without-plan", "--json")
    assert submitted.code == 0, submitted.err
    assert len(topic.read()) == len(before) + 1

    restored = consented(hidden, "restore", file)
    assert restored.code == 0, restored.err
    assert [record[:3] for record in topic.read()] == [record[:3] for record in before]
    assert CLIENT_SECRET not in backed_up.err + submitted.err + restored.err


def test_a_backup_that_follows_them_outlives_the_leader(
    hidden: HiddenCluster, tmp_path: Path
) -> None:
    topic = CommandTopic(hidden.cluster, "outlived_")
    create_topic(hidden.cluster, topic.name, [[2, 1]], SETTINGS)
    every = Generator(8).records(24)
    topic.produce(every[:12])
    words = ("ksql", "backup", "--service-id", topic.service_id, "--store", tmp_path, "--follow")
    try:
        with running(None, *words, "--json", *hidden.words) as follower:
            wait_for(tmp_path, every[:12], follower)
            hidden.cluster.node(2).kill()
            hidden.cluster.wait_partition(
                topic.name, 0, lambda found: found.leader == 1, "another leader"
            )
            topic.produce(every[12:])
            wait_for(tmp_path, every, follower)
            assert follower.stop()["next_offset"] > 0
    finally:
        hidden.cluster.node(2).start()
        hidden.cluster.wait_ready()


def test_doctor_says_that_librdkafka_does_not_know_the_way(
    hidden: HiddenCluster, topic: CommandTopic
) -> None:
    create_topic(hidden.cluster, "led-by-both", [[1], [2]])
    found: dict[str, Any] = {}

    def well() -> bool:
        ended = breakglass("doctor", *hidden.words, "--json")
        found.update({check["name"]: check for check in ended.document["checks"]})
        return bool(
            found["librdkafka"]["state"] == "note" and found["brokers"]["found"] == "2 of 2 answer"
        )

    wait_until(well, "both brokers to answer", instead=lambda: found)
