"""Two thousand commands through the accident of KLIP-31 and back, on real brokers."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from breakglass.services.metastore.log.reader import Replay
from breakglass.services.metastore.records import CommandRecord
from tests.kit.waiting import wait_until
from tests.lab.conftest import FreshCluster
from tests.lab.ksql.commands import following, run
from tests.lab.ksql.topics import CommandTopic
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import stored

COMMANDS = 2_000


def digest_of(records: Sequence[CommandRecord]) -> Replay:
    """The metastore that they are."""
    replay = Replay()
    for record in records:
        assert replay.take(record), replay.degraded
    return replay


def round_trip(
    topic: CommandTopic, records: Sequence[CommandRecord], folder: Path, *, vanish: bool
) -> None:
    """Go through it with *records*; with *vanish* wait until the broker has deleted them."""
    half = len(records) // 2
    written = topic.produce(records[:half], group=3)
    words = ("backup", "--service-id", topic.service_id, "--store", str(folder))
    with following(topic.cluster, *words) as follower:
        follower.event(event="caught up")
        written += topic.produce(records[half:], group=3)
        topic.configure(retention_ms="0")
        follower.event(danger="retention.ms")
        if vanish:
            follower.event(danger="records deleted")
        (file,) = folder.glob("*.bak")
        wait_whole(file, written)
        follower.stop()
    before = digest_of(written)
    if vanish:
        wait_gone(topic)
    restored(topic, file)
    read = topic.read()
    assert read == written
    assert digest_of(read).metastore.digest == before.metastore.digest


def wait_whole(file: Path, written: Sequence[CommandRecord]) -> None:
    """Until the backup has all of it, offsets, times and headers as well."""
    wait_until(lambda: stored(file) == list(written), f"all of it in {file}")


def wait_gone(topic: CommandTopic) -> None:
    """Until the broker has deleted every command."""
    wait_until(lambda: not topic.read(), f"{topic.name} to be empty")


def restored(topic: CommandTopic, file: Path) -> None:
    """Restore *file*, with the phrase that the refusal names."""
    words = ("restore", str(file), "--write")
    refused = run(topic.cluster, *words)
    done = run(topic.cluster, *words, "--consent", refused.consent)
    assert done.code == 0, done.err


@pytest.fixture
def quick_topic(fresh_cluster: FreshCluster) -> CommandTopic:
    """On a broker that looks every second for what has expired."""
    pace = {"log.retention.check.interval.ms": "1000", "log.segment.delete.delay.ms": "100"}
    topic = CommandTopic(fresh_cluster(brokers=1, overrides=pace), f"quick_{uuid.uuid4().hex[:8]}_")
    topic.create()
    return topic


def test_at_kafkas_own_pace_everything_is_saved_before_it_goes(
    topic: CommandTopic, folder: Path
) -> None:
    round_trip(topic, Generator(51).records(COMMANDS), folder, vanish=False)


def test_when_the_broker_deletes_at_once_the_backup_has_it_all(
    quick_topic: CommandTopic, folder: Path
) -> None:
    round_trip(quick_topic, Generator(52).records(COMMANDS), folder, vanish=True)
