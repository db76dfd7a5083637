"""Kafka Backup's connectors restore what Breakglass backed up, and the other way round."""

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from breakglass.services.errors import Refused
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.restore.options import RestorePlan
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.group_history import update_offsets
from breakglass.services.topic_backup.prune import PruneLimits, prune
from tests.kit.running import ran
from tests.kit.waiting import wait_until
from tests.lab.asking import delete_topic
from tests.lab.backup.backups import BackUp
from tests.lab.backup.original import Original, compiled
from tests.lab.backup.producing import (
    LOG,
    SECONDS,
    Values,
    commit,
    committed_messages,
    committed_offset,
    make,
    numbered,
    produce,
    shapes,
)
from tests.lab.backup.restores import Restore
from tests.unit.topic_backup.golden import GOLDEN, partitions
from tests.unit.topic_backup.test_connector import SINK, SOURCE

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


def read(broker: Cluster, topic: str, partitions: int = 4) -> list[list[tuple[object, ...]]]:
    """Key, value, headers and time of each record, partition by partition."""
    return [
        [
            (message.key(), message.value(), message.headers(), message.timestamp())
            for message in committed_messages(broker, topic, partition)
        ]
        for partition in range(partitions)
    ]


def test_the_original_restores_what_was_backed_up_here(
    whole_broker: Cluster, back_up: BackUp, original: Original, filled: str
) -> None:
    was = read(whole_broker, filled)
    back_up.topic(filled, max_segment_bytes=4000)
    delete_topic(whole_broker, filled)
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


EXAMPLE, EXAMPLE_EMPTY = "backup-test-1partition", "backup-test-empty"
"""The topics of the example."""
GROUP = "readers-of-backup-test"
ONE_CORE = ("--master", "local[1]")


def example(file: Path, folder: Path, broker: Cluster) -> Path:
    """The original's example with two values changed: the backup's folder, and the broker."""
    text = file.read_text()
    for old, new in {
        "/tmp/kafka-backup/001_simple_1partition_test/": str(folder / "taken-over"),
        "localhost:9092": broker.bootstrap_servers,
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    copy = folder / file.name
    copy.write_text(text)
    return copy


def files(store: Path) -> Mapping[str, bytes]:
    """Every file that the original knows."""
    found = store.rglob("*_partition_*")
    return {str(path.relative_to(store)): path.read_bytes() for path in found if path.is_file()}


def test_the_originals_own_examples_back_up_and_restore(
    whole_broker: Cluster, back_up: BackUp, tmp_path: Path
) -> None:
    for topic in (EXAMPLE, EXAMPLE_EMPTY):
        make(whole_broker, topic)
    produce(whole_broker, EXAMPLE, numbered(30))
    commit(whole_broker, EXAMPLE, GROUP, 11, 0)
    was = read(whole_broker, EXAMPLE, 1)

    file = example(SINK, tmp_path, whole_broker)
    done = ran("backup", "run", "--connector-config", file, "--snapshot", *ONE_CORE)
    assert done.code == 0, done.err

    back_up(EXAMPLE, EXAMPLE_EMPTY, max_segment_bytes=10 * 1024**2)
    assert len(files(back_up.root)) == 8
    assert files(tmp_path / "taken-over") == files(back_up.root)

    for topic in (EXAMPLE, EXAMPLE_EMPTY):
        delete_topic(whole_broker, topic)
    restore = ("backup", "restore", "--connector-config", example(SOURCE, tmp_path, whole_broker))
    asked = ran(*restore, "--write", *ONE_CORE)
    assert asked.code == 3, asked.err
    phrase = asked.consent
    back = ran(*restore, "--write", "--consent", phrase, *ONE_CORE)
    assert back.code == 0, back.err
    assert read(whole_broker, EXAMPLE, 1) == was
    assert len(whole_broker.partitions(EXAMPLE_EMPTY)) == 1
    assert committed_offset(whole_broker, EXAMPLE, GROUP) == 11
