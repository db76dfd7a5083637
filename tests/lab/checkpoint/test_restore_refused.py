"""What keeps a checkpoint from being restored is found before anything is created."""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from breakglass.services.checkpoint.store.documents import GroupPolicy
from breakglass.services.errors import BreakglassError, Refused, UsageError
from breakglass.services.lab.cluster import Cluster
from tests.kit.waiting import wait_until
from tests.lab.backup.producing import consumer, make, numbered, produce
from tests.lab.checkpoint.taking import Taking

PARTITIONS, RECORDS = 2, 20
SEGMENTS = "contents/1/2/0/segments/{topic}"
RECORDS_FILE = f"{SEGMENTS}/segment_partition_001_from_offset_0000000000_records"
COMMIT = "checkpoints/1/2/0/manifest.json"


@pytest.fixture
def taken(whole_broker: Cluster, taking: Taking, topic: str) -> str:
    """A topic that checkpoint 1 is of."""
    make(whole_broker, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(whole_broker, topic, numbered(RECORDS), partition)
    assert taking.taken(topic) == 1
    return topic


def changed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def another_hash(path: Path) -> None:
    document = json.loads(path.read_text())
    hashed = document["files"][0]["sha256"]
    document["files"][0]["sha256"] = ("1" if hashed[0] == "0" else "0") + hashed[1:]
    path.write_text(json.dumps(document))


def require_nothing_begun(taking: Taking) -> None:
    assert taking.topic_id(taking.control) is None
    assert not (taking.folder / "restores").exists()


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        pytest.param(RECORDS_FILE, changed, id="a byte of the records is changed"),
        pytest.param(RECORDS_FILE, Path.unlink, id="the records are gone"),
        pytest.param(f"{SEGMENTS}/index_partition_001", changed, id="a byte of the index is"),
        pytest.param(f"{SEGMENTS}/breakglass_manifest.json", Path.unlink, id="no manifest"),
        pytest.param(COMMIT, another_hash, id="the commit names another hash"),
        pytest.param(COMMIT, torn, id="the commit is torn"),
    ],
)
def test_a_damaged_checkpoint_is_refused(
    taking: Taking, taken: str, name: str, damage: Callable[[Path], None]
) -> None:
    damage(Path(taking.store.address) / name.format(topic=taken))
    with pytest.raises(BreakglassError):
        taking.plan(1, {taken: f"{taken}-back"})
    assert taking.topic_id(f"{taken}-back") is None
    require_nothing_begun(taking)


@pytest.mark.parametrize("partitions", [PARTITIONS - 1, PARTITIONS + 1], ids=["fewer", "more"])
def test_an_empty_topic_with_another_number_of_partitions_is_refused(
    whole_broker: Cluster, taking: Taking, taken: str, partitions: int
) -> None:
    target = f"{taken}-back"
    make(whole_broker, target, partitions=partitions)
    before = taking.topic_id(target)
    with pytest.raises(Refused):
        taking.plan(1, {taken: target})
    assert taking.topic_id(target) == before
    require_nothing_begun(taking)


def test_a_topic_that_holds_records_is_refused_by_options_that_there_are(
    taking: Taking, taken: str
) -> None:
    with pytest.raises(Refused) as refused:
        taking.plan(1)
    assert set(re.findall("--[a-z]+", str(refused.value))) == {"--map", "--suffix", "--resume"}


def test_a_group_with_members_is_refused(whole_broker: Cluster, taking: Taking, topic: str) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(5))
    with closing(consumer(whole_broker, topic)) as member:
        member.subscribe([topic])
        wait_until(lambda: member.consume(timeout=0.2), "the member to read")
        member.commit(asynchronous=False)
        id = taking.taken(topic, groups={topic: GroupPolicy.AT_LEAST_ONCE})
        with pytest.raises(Refused, match=f"consumers of {topic}"):
            taking.plan(id, {topic: f"{topic}-back"})
    require_nothing_begun(taking)


@pytest.mark.parametrize(
    "renamed",
    [
        pytest.param({"": "no good"}, id="a name that no topic may have"),
        pytest.param({"": "__consumer_offsets"}, id="Kafka's own"),
        pytest.param({"": "same", "-b": "same"}, id="two topics into one"),
        pytest.param({"": "{topic}_b"}, id="it differs from another in dots alone"),
    ],
)
def test_a_name_that_cannot_be_restored_into_is_a_usage_error(
    whole_broker: Cluster, taking: Taking, taken: str, renamed: Mapping[str, str]
) -> None:
    for name in (f"{taken}-b", f"{taken}.b"):
        make(whole_broker, name)
    id = taking.taken(*(f"{taken}{end}" for end in renamed))
    named = {f"{taken}{end}": target.format(topic=taken) for end, target in renamed.items()}
    with pytest.raises(UsageError):
        taking.plan(id, named)
    require_nothing_begun(taking)


def test_the_longest_name_that_a_topic_may_have_is_taken(taking: Taking, taken: str) -> None:
    assert taking.plan(1, {taken: "n" * 249}).plan.records == PARTITIONS * RECORDS
