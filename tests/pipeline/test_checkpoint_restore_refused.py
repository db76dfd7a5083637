"""What keeps a checkpoint from being restored is found before anything is created."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer

from services.checkpoint.store.documents import Policy
from services.errors import BreakglassError, Refused, StorageError
from services.lab.cluster import Cluster
from tests.pipeline.checkpoint_restores import Checkpoints
from tests.pipeline.producing import LOG, make, numbered, produce
from tests.waiting import wait_until

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
    assert checkpoints.topic_id(checkpoints.control) is None
    assert not (checkpoints.folder / "restores").exists()


def test_a_topic_that_holds_records_is_refused_by_options_that_there_are(
    checkpoints: Checkpoints, taken: str
) -> None:
    with pytest.raises(Refused, match="holds records") as refused:
        checkpoints.plan(1)
    options = {one.rstrip(",:") for one in str(refused.value).split() if one.startswith("--")}
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
        id = checkpoints.taken(topic, groups={topic: Policy.AT_LEAST_ONCE})
        target = f"{topic}-back"
        with pytest.raises(Refused, match=f"consumers of {topic} are running") as refused:
            checkpoints.plan(id, {topic: target})
    finally:
        member.close()
    assert str(refused.value).endswith("so nothing is restored: stop them, then try again")
    require_nothing_done(checkpoints, target)
