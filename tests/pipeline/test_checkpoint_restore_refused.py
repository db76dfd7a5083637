"""What keeps a checkpoint from being restored is found before anything is created."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from breakglass.services.checkpoint.store.documents import GroupPolicy
from breakglass.services.errors import BreakglassError, Refused, StorageError, UsageError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.restore.target import require_apart
from tests.kit.waiting import wait_until
from tests.lab.checkpoint.commands import Program
from tests.pipeline.checkpoint_restores import Checkpoints
from tests.pipeline.producing import LOG, SECONDS, make, numbered, produce

PARTITIONS = 2
STORED = [
    "contents/1/2/0/segments/{topic}/segment_partition_001_from_offset_0000000000_records",
    "contents/1/2/0/segments/{topic}/segment_partition_001_from_offset_0000000000_index",
    "contents/1/2/0/segments/{topic}/index_partition_001",
    "contents/1/2/0/segments/{topic}/breakglass_manifest.json",
]
"""Files of the second partition's copy."""


@pytest.fixture
def taken(broker: Cluster, checkpoints: Checkpoints, topic: str) -> str:
    """A topic that checkpoint 1 is of."""
    make(broker, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(broker, topic, numbered(20), partition)
    assert checkpoints.taken(topic) == 1
    return topic


def consumer(broker: Cluster, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        },
        logger=LOG,
    )


def require_nothing_done(checkpoints: Checkpoints, target: str) -> None:
    assert checkpoints.topic_id(target) is None
    require_nothing_begun(checkpoints)


def require_nothing_begun(checkpoints: Checkpoints) -> None:
    assert checkpoints.topic_id(checkpoints.control) is None
    assert not (checkpoints.folder / "restores").exists()


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("name", STORED, ids=["records", "index", "partition-index", "manifest"])
def test_a_checkpoint_with_one_damaged_byte_is_refused(
    checkpoints: Checkpoints, taken: str, name: str, place: str
) -> None:
    path = checkpoints.folder / "store" / name.format(topic=taken)
    content = bytearray(path.read_bytes())
    at = {"first": 0, "middle": len(content) // 2, "last": len(content) - 1}[place]
    content[at] ^= 1
    path.write_bytes(content)
    target = f"{taken}-back"
    with pytest.raises(StorageError, match="bring it back from another copy of the store"):
        checkpoints.plan(1, {taken: target})
    require_nothing_done(checkpoints, target)


@pytest.mark.parametrize("name", STORED, ids=["records", "index", "partition-index", "manifest"])
def test_a_checkpoint_that_lacks_a_file_is_refused(
    checkpoints: Checkpoints, taken: str, name: str
) -> None:
    (checkpoints.folder / "store" / name.format(topic=taken)).unlink()
    target = f"{taken}-back"
    with pytest.raises(StorageError, match="bring it back from another copy of the store"):
        checkpoints.plan(1, {taken: target})
    require_nothing_done(checkpoints, target)


def test_a_commit_that_names_another_hash_is_refused(checkpoints: Checkpoints, taken: str) -> None:
    path = checkpoints.folder / "store" / "checkpoints/1/2/0/manifest.json"
    document = json.loads(path.read_text())
    hashed = document["files"][0]["sha256"]
    document["files"][0]["sha256"] = ("1" if hashed[0] == "0" else "0") + hashed[1:]
    path.write_text(json.dumps(document))
    target = f"{taken}-back"
    with pytest.raises(StorageError, match="bring it back from another copy of the store"):
        checkpoints.plan(1, {taken: target})
    require_nothing_done(checkpoints, target)


def test_a_commit_that_is_torn_is_refused(checkpoints: Checkpoints, taken: str) -> None:
    path = checkpoints.folder / "store" / "checkpoints/1/2/0/manifest.json"
    path.write_bytes(path.read_bytes()[:-10])
    target = f"{taken}-back"
    with pytest.raises(BreakglassError, match=r"manifest\.json"):
        checkpoints.plan(1, {taken: target})
    require_nothing_done(checkpoints, target)


@pytest.mark.parametrize("partitions", [PARTITIONS - 1, PARTITIONS + 1], ids=["fewer", "more"])
def test_an_empty_topic_with_another_number_of_partitions_is_refused(
    broker: Cluster, checkpoints: Checkpoints, taken: str, partitions: int
) -> None:
    target = f"{taken}-back"
    make(broker, target, partitions=partitions)
    before = checkpoints.topic_id(target)
    told = f"is {partitions}, and {PARTITIONS} in the checkpoint: restore into a topic of another"
    with pytest.raises(Refused, match=told):
        checkpoints.plan(1, {taken: target})
    assert checkpoints.topic_id(target) == before
    require_nothing_begun(checkpoints)


def test_a_topic_that_holds_records_is_refused_by_options_that_there_are(
    checkpoints: Checkpoints, taken: str
) -> None:
    with pytest.raises(Refused, match="has records") as refused:
        checkpoints.plan(1)
    options = {part.rstrip(",:") for part in str(refused.value).split() if part.startswith("--")}
    assert options == {"--map", "--suffix", "--resume"}


def test_a_group_with_members_is_refused_by_options_that_there_are(
    broker: Cluster, checkpoints: Checkpoints, topic: str
) -> None:
    make(broker, topic)
    produce(broker, topic, numbered(5))
    member = consumer(broker, topic)
    try:
        member.subscribe([topic])
        wait_until(lambda: member.consume(timeout=0.2), "the member to read")
        member.commit(asynchronous=False)
        id = checkpoints.taken(topic, groups={topic: GroupPolicy.AT_LEAST_ONCE})
        target = f"{topic}-back"
        with pytest.raises(Refused, match=f"consumers of {topic} are running") as refused:
            checkpoints.plan(id, {topic: target})
    finally:
        member.close()
    assert str(refused.value).endswith("so nothing is restored: stop them, then try again")
    require_nothing_done(checkpoints, target)


@pytest.mark.parametrize(
    "name", ["no good", "a~2", "ä", ".", "..", "", "n" * 250, "a/b", "__consumer_offsets"]
)
def test_a_name_that_no_topic_may_have_is_a_usage_error(
    checkpoints: Checkpoints, taken: str, name: str
) -> None:
    with pytest.raises(UsageError, match=r"not a topic name that Kafka allows|is Kafka's own"):
        checkpoints.plan(1, {taken: name})
    require_nothing_begun(checkpoints)


def test_the_longest_name_that_a_topic_may_have_is_taken(
    checkpoints: Checkpoints, taken: str
) -> None:
    assert checkpoints.plan(1, {taken: "n" * 249}).plan.records == 2 * 20


def test_two_topics_are_not_restored_into_one(
    broker: Cluster, checkpoints: Checkpoints, taken: str
) -> None:
    make(broker, f"{taken}-b")
    id = checkpoints.taken(taken, f"{taken}-b")
    with pytest.raises(UsageError, match="into one"):
        checkpoints.plan(id, {taken: "same", f"{taken}-b": "same"})


def test_the_command_ends_with_2_for_such_a_name_before_any_broker_is_asked(
    checkpoints: Checkpoints, taken: str
) -> None:
    nobody = "127.0.0.1:1"
    program = Program(nobody, Path(checkpoints.store.address), checkpoints.folder)
    ended = program("restore", "1", "--map", f"{taken}=no good", "--write")
    assert (ended.code, ended.out) == (2, "")
    assert "'no good' is not a topic name that Kafka allows" in ended.err


def test_a_name_that_differs_from_another_in_dots_alone_is_a_usage_error(
    broker: Cluster, checkpoints: Checkpoints, taken: str
) -> None:
    """Kafka refuses it, too, when the topic is created."""
    make(broker, f"{taken}.a")
    with pytest.raises(UsageError, match="dots and underscores alone"):
        checkpoints.plan(1, {taken: f"{taken}_a"})
    require_nothing_begun(checkpoints)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers}, logger=LOG)
    (made,) = admin.create_topics([NewTopic(f"{taken}_a", 1, 1)]).values()
    with pytest.raises(KafkaException, match="collides"):
        made.result(SECONDS)


def test_two_new_topics_may_not_differ_in_dots_alone_either() -> None:
    require_apart(["a.b", "a-b"], ["a.c"])
    with pytest.raises(UsageError, match=r"refuses topic a_b beside a\.b"):
        require_apart(["a.b", "a_b"], [])
