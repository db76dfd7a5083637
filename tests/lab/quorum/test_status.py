"""A quorum that is lost and returns by the advice of `breakglass quorum`, and strays that return.

What is there is asked of Kafka's own tool; what is lost is what was killed.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from breakglass.services.lab.cluster import Cluster, LabOptions
from breakglass.services.lab.properties import SUPER_USER
from breakglass.services.lab.topics import configure_topic, create_topic
from breakglass.services.recovery.rescue.broker_folder import CLEAN_SHUTDOWN
from tests.kit.client_properties import write_client_properties
from tests.kit.program import Ended, breakglass
from tests.lab.quorum.lagging import (
    OLD,
    OVERRIDES,
    Lagged,
    addresses,
    copy_of,
    kill_everything,
    produce,
)
from tests.lab.quorum.test_return import (
    Lost,
    bash,
    follow,
    make_dynamic,
    planned,
    prepared,
    quorum_tool,
    secure_controllers,
    values_of,
    voters_of,
)

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("quorum")]

OFTEN = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
"""How often brokers look for records that are too old."""
OPTIONS: LabOptions = {"brokers": 2, "overrides": OVERRIDES, "tethered": True}


def asked(cluster: Cluster, *more: object) -> Ended:
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    return breakglass("quorum", *(more or servers), *login(cluster), "--json")


def login(cluster: Cluster) -> tuple[object, ...]:
    if not cluster.layout.secured:
        return ()
    return "--command-config", write_client_properties(cluster.layout, SUPER_USER)


def told(document: dict[str, Any], *names: str) -> list[list[object]]:
    return [[one[name] for name in names] for one in document["nodes"]]


def acknowledged(cluster: Cluster) -> bool:
    """Whether a record of OLD-0 is acknowledged by every member of the ISR."""
    producer = Producer(
        {"bootstrap.servers": cluster.lab_bootstrap, "acks": "all", "message.timeout.ms": 10_000}
    )
    errors: list[bool] = []
    producer.produce(
        OLD, b"0", partition=0, on_delivery=lambda error, _: errors.append(error is not None)
    )
    assert producer.flush(60) == 0
    return errors == [False]


@pytest.mark.parametrize(
    ("version", "dynamic"), [("4.3.1", False), ("4.3.1", True), ("3.9.2", False)], ids=str
)
def test_q17_q18_a_lost_quorum_returns_when_those_are_started_that_are_named(
    version: str, dynamic: bool, tmp_path: Path
) -> None:
    options: LabOptions = {**OPTIONS, "controllers": 3, "kafka_version": version}
    options["secured"] = dynamic
    with Cluster.plan(tmp_path / "lab", **options) as cluster:
        for node in cluster.controllers:
            cluster.configure(node.id, {"controller.quorum.fetch.timeout.ms": "2000"})
        if dynamic:
            secure_controllers(cluster)
            make_dynamic(cluster)
        cluster.start()
        create_topic(cluster, OLD, [(1, 2)])
        produce(cluster, OLD, 1, 10, idempotent=False)

        ended = asked(cluster)
        found = ended.document
        assert (ended.code, found["dynamic"], found["missing"]) == (0, dynamic, [])
        status = quorum_tool(cluster, "describe", "--status")
        assert f"LeaderId: {found['leader']}" in " ".join(status.split())
        assert len(voters_of(cluster)) == len(found["voters"]) == 3
        assert all(isinstance(one, int) for (one,) in told(found, "log_end"))

        first, last = (node for node in cluster.controllers if node.id != found["leader"])
        gone = [first.id, found["leader"]]
        first.kill()
        cluster.wait_until(
            lambda: asked(cluster).document["missing"] == [f"c{first.id}"], "a voter to be missing"
        )
        assert asked(cluster).code == 0
        cluster.node(found["leader"]).kill()
        cluster.wait_until(lambda: asked(cluster).code == 1, "the leader to be gone")
        for more in ((), ("--bootstrap-controller", cluster.controller_bootstrap)):
            document = asked(cluster, *more).document
            assert (document["lacking"], document["leader"]) == (1, None)
            assert document["missing"] == sorted(f"c{one}" for one in gone)
            (survivor,) = [one for one in document["nodes"] if one["id"] == last.id]
            assert (survivor["trouble"], survivor["role"]) == ("", "voter")
            assert isinstance(survivor["epoch"], int)
        assert all(one["applied"] > 0 for one in asked(cluster).document["nodes"] if one["broker"])

        named = addresses(*cluster.brokers, *(cluster.node(one) for one in gone))
        plan = ("quorum", "plan", *named, "--voter", first.id, "--out", tmp_path / "plan")
        ended = breakglass(*plan, *login(cluster))
        assert (ended.code, f"c{last.id} answers at" in ended.err) == (3, True)

        last.kill()
        # A follower of the ISR runs, then not: no controller can take it out.
        assert acknowledged(cluster)
        cluster.broker(2).kill()
        assert not acknowledged(cluster)
        document = asked(cluster).document
        assert (document["leader"], document["missing"] == []) == (None, dynamic)
        # The last one of Kafka 3.9 raised its epoch alone. A broker that heard of it and starts
        # again hangs, without an error, until a leader is above it: only then that one is back.
        for node in cluster.controllers:
            node.start()
        cluster.wait_until(lambda: asked(cluster).code == 0, "a controller to lead")
        cluster.broker(2).start()
        cluster.wait_ready()


def test_q14_q19_a_formatted_majority_makes_strays_of_all_topics_and_they_come_back(
    tmp_path: Path,
) -> None:
    """Nothing but the folder that nobody formatted knows the topics.

    The brokers stop cleanly, and so leave the indexes of their strays as they allocated them.
    """
    options: LabOptions = {"brokers": 2, "controllers": 3, "tethered": True}
    options["overrides"] = OFTEN
    with Cluster.up(tmp_path / "lab", **options) as cluster:
        create_topic(cluster, OLD, [(1, 2)])
        produce(cluster, OLD, 1, 20)
        *formatted, survivor = cluster.controllers
        kill_everything(cluster)
        for node in (*formatted, *cluster.brokers):
            shutil.rmtree(copy_of(node))
        for node in (*formatted, *cluster.brokers):
            node.start()
        folders = [folder for node in cluster.brokers for folder in node.layout.log_dirs]
        cluster.wait_until(
            lambda: all(any(one.glob(f"{OLD}-0.*-stray")) for one in folders), "the strays"
        )
        cluster.wait_ready()
        for node in cluster.brokers:
            node.stop()
        assert all((one / CLEAN_SHUTDOWN).exists() for one in folders)
        kill_everything(cluster)

        named = addresses(*cluster.brokers, survivor)
        copy = ("--copy", f"log:{copy_of(survivor)}")
        out = tmp_path / "refused"
        ended = breakglass("quorum", "plan", *named, *copy, "--voter", survivor.id, "--out", out)
        assert (ended.code, f"{OLD} 20" in ended.err, out.exists()) == (3, True, False)
        ended = breakglass("quorum", "strays", *named, *copy)
        commands = [line for line in ended.out.splitlines() if line.startswith("    ")]
        assert (ended.code, [line.split()[0] for line in commands]) == (0, ["rm", "test"] * 2)
        bash("\n".join(commands))
        assert breakglass("quorum", "strays", *named, "--json").document["strays"] == []
        lost = Lost(Lagged(cluster, survivor), False, tmp_path)
        plan = planned(lost, tmp_path, *cluster.brokers, survivor, voter=survivor.id, more=copy)
        ended = prepared(plan, tmp_path / "promoted")
        assert ended.code == 0, ended.err
        follow(lost, ended.out)
        cluster.wait_ready()
        cluster.wait_until(lambda: set(cluster.partition(OLD, 0).isr) == {1, 2}, "the ISR")
        wait_for_retention(cluster)
        assert values_of(cluster, OLD, 0) == [*range(20)]
        watched = ("quorum", "watch", plan, "--bootstrap-server", cluster.bootstrap_servers)
        assert breakglass(*watched).code == 0


def wait_for_retention(cluster: Cluster) -> None:
    """Return after both brokers have deleted what is too old: that of topics made now."""
    for broker in (1, 2):
        topic = f"expired-{broker}"
        create_topic(cluster, topic, [(broker,)])
        configure_topic(cluster, topic, {"retention.ms": "1"})
        for number in (1, 2):
            # The second time, a whole look of the broker at all its logs lies between.
            produce(cluster, topic, 1, 5)
            cluster.wait_until(partial(deletes, cluster, topic, 5 * number), "retention to delete")


def deletes(cluster: Cluster, topic: str, end: int) -> bool:
    """Whether the log begins at *end* or later."""
    servers = {"bootstrap.servers": cluster.lab_bootstrap, "group.id": "looks-at-starts"}
    consumer = Consumer(servers)
    try:
        return int(consumer.get_watermark_offsets(Position(topic, 0), 60)[0]) >= end
    finally:
        consumer.close()
