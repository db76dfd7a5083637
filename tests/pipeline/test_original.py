"""Kafka Backup's own connectors restore what Breakglass backed up, and the other way round."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from breakglass.services.errors import Refused
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.restore.planned import RestorePlan
from breakglass.services.topic_backup import consumer_offsets
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.prune import PruneLimits, prune
from tests.kit.waiting import wait_until
from tests.pipeline.backups import BackUp
from tests.pipeline.original import Original, compiled
from tests.pipeline.producing import (
    LOG,
    SECONDS,
    Values,
    committed_messages,
    make,
    numbered,
    produce,
    shapes,
)
from tests.pipeline.restores import Restore
from tests.pipeline.test_restore import commit
from tests.unit.topic_backup.golden import GOLDEN, partitions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SHAPES, NUMBERED, UNREAD, EMPTY = range(4)
"""Partitions: no group has committed on the last two."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return compiled(tmp_path_factory.mktemp("original"))


@pytest.fixture
def filled(broker: Cluster, topic: str) -> str:
    """Records of every shape that Connect can carry, and groups in the middle and at the end."""
    make(broker, topic, partitions=4)
    produce(broker, topic, carried(), SHAPES)
    produce(broker, topic, numbered(30), NUMBERED)
    produce(broker, topic, numbered(12), UNREAD)
    for group, offset in groups(topic).items():
        commit(broker, topic, group, offset, NUMBERED)
    commit(broker, topic, f"{topic}-shapes", 5, SHAPES)
    return topic


def groups(topic: str) -> dict[str, int]:
    return {f"{topic}-middle": 11, f"{topic}-beside": 11, f"{topic}-end": 30}


def carried() -> Iterator[Values]:
    """Connect's converter of headers refuses none; 300 of them make a test slow."""
    return (values for values in shapes() if len(values["headers"]) < 300)


def read(broker: Cluster, topic: str) -> list[list[tuple[object, ...]]]:
    """Key, value, headers and time of each record, partition by partition."""
    return [
        [
            (message.key(), message.value(), message.headers(), message.timestamp())
            for message in committed_messages(broker, topic, partition)
        ]
        for partition in range(4)
    ]


def committed(broker: Cluster, topic: str, group: str, partition: int = NUMBERED) -> int:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": group}, logger=LOG
    )
    try:
        (place,) = consumer.committed([TopicPartition(topic, partition)], SECONDS)
        return int(place.offset)
    finally:
        consumer.close()


def test_the_original_restores_what_was_backed_up_here(
    broker: Cluster, back_up: BackUp, original: Original, filled: str
) -> None:
    was = read(broker, filled)
    back_up.topic(filled, max_segment_bytes=4000)
    delete(broker, filled)
    make(broker, filled, partitions=4)

    def done() -> bool:
        return counts(broker, filled) == [len(records) for records in was] and all(
            committed(broker, filled, group) >= 0 for group in groups(filled)
        )

    original.restore(broker, back_up.root, done, filled)
    assert read(broker, filled) == was
    assert {group: committed(broker, filled, group) for group in groups(filled)} == groups(filled)
    assert committed(broker, filled, f"{filled}-shapes", SHAPES) == 5


def test_what_the_original_backed_up_is_restored_here(
    broker: Cluster, back_up: BackUp, restore: Restore, original: Original, filled: str
) -> None:
    original.back_up(broker, back_up.root, filled)
    target = f"{filled}-back"
    plan = planned(restore, filled, target)
    done = restore(plan)
    assert (done.error, done.verified, done.groups_failed) == ("", True, {})
    assert read(broker, target) == read(broker, filled)
    assert {group: committed(broker, target, group) for group in groups(filled)} == groups(filled)
    assert committed(broker, target, f"{filled}-shapes", SHAPES) == 5


def test_the_original_restores_what_a_prune_left_of_its_folder(
    broker: Cluster, original: Original, topic: str, tmp_path: Path
) -> None:
    shutil.copytree(GOLDEN / "rotation" / "rotation", tmp_path / topic)
    folder, golden = LocalFolder(tmp_path / topic), partitions("rotation")
    for part in golden:
        # Its source task wants the file, which its sink had not written yet.
        consumer_offsets.update(folder, part.partition, {})
    gone = prune(folder, PruneLimits(before_offset=150))
    pruned = [
        sum(one.records for one in gone if one.partition == part.partition) for part in golden
    ]
    assert all(pruned)
    left = [
        [(record.key, record.value) for record in part.records[count:]]
        for part, count in zip(golden, pruned, strict=True)
    ]
    make(broker, topic, partitions=len(left))

    def done() -> bool:
        try:
            return counts(broker, topic, len(left)) == [len(records) for records in left]
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return False  # A broker knows a new topic before it leads the partitions.

    original.restore(broker, tmp_path, done, topic)
    assert [
        [(message.key(), message.value()) for message in committed_messages(broker, topic, number)]
        for number in range(len(left))
    ] == left


def planned(restore: Restore, topic: str, target: str) -> RestorePlan:
    """The plan, once the worker's own group has no members: its process ended without a word."""
    plans: list[RestorePlan] = []

    def allowed() -> bool:
        with contextlib.suppress(Refused):
            settings = {"retention.ms": "-1"}
            plans.append(restore.plan(topic, target, groups=True, settings=settings))
        return bool(plans)

    wait_until(allowed, "the worker's group to be empty", every=0.5)
    return plans[0]


def counts(broker: Cluster, topic: str, partitions: int = 4) -> list[int]:
    """Offsets of each partition; none while a leader does not know yet that it leads."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "-"}, logger=LOG
    )
    try:
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        return [consumer.get_watermark_offsets(place, SECONDS)[1] for place in places]
    except KafkaException as error:
        if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
            raise
        return []
    finally:
        consumer.close()


def delete(broker: Cluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([topic])[topic].result(SECONDS)
    wait_until(lambda: topic not in admin.list_topics(timeout=SECONDS).topics, "the topic to go")
