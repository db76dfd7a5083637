"""Two thousand commands through the accident of KLIP-31 and back, on real brokers."""

import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.log.reader import Replay
from tests.kit.waiting import wait_until
from tests.lab.conftest import FreshCluster
from tests.lab.ksql.commands import following
from tests.lab.ksql.test_restore import consented
from tests.lab.ksql.topics import CommandTopic
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import stored

COMMANDS = 2_000


def metastore_of(records: Sequence[CommandRecord]) -> str:
    replay = Replay()
    for record in records:
        assert replay.take(record), replay.degraded
    return replay.metastore.digest


@pytest.fixture
def quick_topic(fresh_cluster: FreshCluster) -> CommandTopic:
    """On a broker that looks every second for what has expired."""
    pace = {"log.retention.check.interval.ms": "1000", "log.segment.delete.delay.ms": "100"}
    topic = CommandTopic(fresh_cluster(brokers=1, overrides=pace), f"quick_{uuid.uuid4().hex[:8]}_")
    topic.create()
    return topic


def test_when_the_broker_deletes_at_once_the_backup_has_it_all(
    quick_topic: CommandTopic, folder: Path
) -> None:
    topic, records = quick_topic, Generator(52).records(COMMANDS)
    written = topic.produce(records[: COMMANDS // 2], group=3)
    words = ("backup", "--service-id", topic.service_id, "--store", str(folder))
    with following(topic.cluster, *words) as follower:
        follower.event(event="caught up")
        written += topic.produce(records[COMMANDS // 2 :], group=3)
        topic.configure(retention_ms="0")
        follower.event(danger="retention.ms")
        follower.event(danger="records deleted")
        (file,) = folder.glob("*.bak")
        wait_until(lambda: stored(file) == written, f"all of it in {file}")
        follower.stop()
    wait_until(lambda: not topic.read(), f"{topic.name} to be empty")
    restored = consented(topic, file)
    assert restored.code == 0, restored.err
    read = topic.read()
    assert read == written
    assert metastore_of(read) == metastore_of(written)
