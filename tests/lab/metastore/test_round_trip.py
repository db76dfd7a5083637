"""Two thousand commands through the accident of KLIP-31 and back, on real brokers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from tests.kit.waiting import within
from tests.lab.metastore.round_trip import round_trip
from tests.lab.metastore.topics import CommandTopic
from tests.unit.metastore.generating import Generator

pytestmark = pytest.mark.slow

COMMANDS = 2_000
WITHIN_SECONDS = 2.0


@pytest.fixture
def quick_topic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandTopic]:
    """On a broker that looks every second for what has expired."""
    pace = {"log.retention.check.interval.ms": "1000", "log.segment.delete.delay.ms": "100"}
    folder = tmp_path_factory.mktemp("quick")
    with Cluster.up(folder, brokers=1, overrides=pace, tethered=True) as cluster:
        topic = CommandTopic(cluster, f"quick_{uuid.uuid4().hex[:8]}_")
        topic.create()
        yield topic


def test_at_kafkas_own_pace_everything_is_saved_before_it_goes(
    topic: CommandTopic, folder: Path
) -> None:
    done = round_trip(topic, Generator(51).records(COMMANDS), folder, vanish=False)
    assert done.commands == COMMANDS
    assert done.alarm_seconds < within(WITHIN_SECONDS)


def test_when_the_broker_deletes_at_once_the_backup_has_it_all(
    quick_topic: CommandTopic, folder: Path
) -> None:
    done = round_trip(quick_topic, Generator(52).records(COMMANDS), folder, vanish=True)
    assert done.commands == COMMANDS
    assert done.alarm_seconds < within(WITHIN_SECONDS)
