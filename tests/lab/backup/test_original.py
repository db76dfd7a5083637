"""Kafka Backup's own connectors restore what Breakglass backed up, and the other way round."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from breakglass.services.errors import Refused
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.restore.options import RestorePlan
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.group_history import update_offsets
from breakglass.services.topic_backup.prune import PruneLimits, prune
from tests.kit.waiting import wait_until
from tests.lab.backup.backups import BackUp
from tests.lab.backup.original import Original, compiled
from tests.lab.backup.producing import (
    LOG,
    SECONDS,
    Values,
    commit,
    committed_messages,
    committed_offset,
    delete,
    make,
    numbered,
    produce,
    shapes,
)
from tests.lab.backup.restores import Restore
from tests.unit.topic_backup.golden import GOLDEN, partitions

SHAPES, NUMBERED, UNREAD, EMPTY = range(4)
"""Partitions: no group has committed on the last two."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return compiled(tmp_path_factory.mktemp("original"))


@pytest.fixture
def filled(whole_broker: Cluster, topic: str) -> str:
    """Records of every shape that Connect can carry, and groups in the middle and at the end."""
    make(whole_broker, topic, partitions=4)
    produce(whole_broker, topic, carried(), SHAPES)
    produce(whole_broker, topic, numbered(30), NUMBERED)
    produce(whole_broker, topic, numbered(12), UNREAD)
    for group, offset in groups(topic).items():
        commit(whole_broker, topic, group, offset, NUMBERED)
    commit(whole_broker, topic, f"{topic}-shapes", 5, SHAPES)
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


def test_the_original_restores_what_was_backed_up_here(
    whole_broker: Cluster, back_up: BackUp, original: Original, filled: str
) -> None:
    was = read(whole_broker, filled)
    back_up.topic(filled, max_segment_bytes=4000)
    delete(whole_broker, filled)
    make(whole_broker, filled, partitions=4)

    def done() -> bool:
        return counts(whole_broker, filled) == [len(records) for records in was] and all(
            committed_offset(whole_broker, filled, group, NUMBERED) >= 0 for group in groups(filled)
        )

    original.restore(whole_broker, back_up.root, done, filled)
    assert read(whole_broker, filled) == was
    assert {
        group: committed_offset(whole_broker, filled, group, NUMBERED) for group in groups(filled)
    } == groups(filled)
    assert committed_offset(whole_broker, filled, f"{filled}-shapes", SHAPES) == 5


def test_what_the_original_backed_up_is_restored_here(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, original: Original, filled: str
) -> None:
    original.back_up(whole_broker, back_up.root, filled)
    target = f"{filled}-back"
    plan = planned(restore, filled, target)
    done = restore(plan)
    assert (done.error, done.verified, done.groups_failed) == ("", True, {})
    assert read(whole_broker, target) == read(whole_broker, filled)
    assert {
        group: committed_offset(whole_broker, target, group, NUMBERED) for group in groups(filled)
    } == groups(filled)
    assert committed_offset(whole_broker, target, f"{filled}-shapes", SHAPES) == 5


def test_the_original_restores_what_a_prune_left_of_its_folder(
    whole_broker: Cluster, original: Original, topic: str, tmp_path: Path
) -> None:
    shutil.copytree(GOLDEN / "rotation" / "rotation", tmp_path / topic)
    folder, golden = LocalFolder(tmp_path / topic), partitions("rotation")
    for part in golden:
        # Its source task wants the file, which its sink had not written yet.
        update_offsets(folder, part.partition, {})
    gone = prune(folder, PruneLimits(before_offset=150))
    pruned = [
        sum(one.records for one in gone if one.partition == part.partition) for part in golden
    ]
    assert all(pruned)
    left = [
        [(record.key, record.value) for record in part.records[count:]]
        for part, count in zip(golden, pruned, strict=True)
    ]
    make(whole_broker, topic, partitions=len(left))

    def done() -> bool:
        try:
            return counts(whole_broker, topic, len(left)) == [len(records) for records in left]
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                raise
            return False  # A broker knows a new topic before it leads the partitions.

    original.restore(whole_broker, tmp_path, done, topic)
    assert [
        [
            (message.key(), message.value())
            for message in committed_messages(whole_broker, topic, number)
        ]
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

    wait_until(allowed, "the worker's group to be empty")
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
