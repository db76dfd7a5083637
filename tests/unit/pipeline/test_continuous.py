"""What a stream hands out: what is new in each partition, whatever becomes of its leader."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from kafka.protocol.consumer import ListOffsetsRequest

from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.model import EpochHistory, PartitionState, TopicPartition
from breakglass.services.pipeline.backup_context import BackupRun, BackupSettings, Meter
from breakglass.services.pipeline.continuous import BatchRanges, Stream, within
from breakglass.services.pipeline.session import Spark
from breakglass.services.pipeline.source import CopyStretch, PartitionSource, stretch
from breakglass.services.session import ReadAccess
from breakglass.services.topic_backup.store.store import LocalStore
from breakglass.services.topic_backup.summary import (
    Gap,
    GapReason,
    PartitionSummary,
    SegmentSummary,
)
from tests.kit.fake_broker import HangUp
from tests.kit.fake_cluster import FakeCluster, FakeReplica
from tests.kit.fake_metadata import TOPIC_ID
from tests.kit.waiting import wait_until

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
QUICK = 0.01
"""Seconds between two looks."""


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Two brokers that lead a partition of ten records each."""
    with FakeCluster(2) as made:
        for leader, partition in ((1, FIRST), (2, SECOND)):
            made.story.states[partition] = led_by(leader, partition)
            for broker in (1, 2):
                made.hold(broker, partition, (5, 10))
        yield made


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[ReadClient]:
    made = cluster.client()
    yield made
    made.close()


def led_by(leader: int | None, partition: TopicPartition = FIRST) -> PartitionState:
    return PartitionState(partition, TOPIC_ID, leader, 5, (1, 2), (1, 2), (), (), ())


def log_of(cluster: FakeCluster, partition: TopicPartition, broker: int) -> FakeReplica:
    return cluster.replicas[broker, partition]


@contextmanager
def handed_out(
    client: ReadClient, ends: dict[TopicPartition, int], most: int = 100
) -> Iterator[list[BatchRanges]]:
    """What a stream from *ends* on hands out while the block runs."""
    found: list[BatchRanges] = []

    settings = BackupSettings(LocalStore(Path("unused")), offsets_a_job=most)
    # Nothing here asks Spark for anything.
    spark, access = cast("Spark", None), ReadAccess(ConnectionSettings(()))
    run = BackupRun(client, spark, access, settings, Meter(lambda _: None))
    with Stream(run, ends, found.append, QUICK):
        yield found


def test_what_is_new_is_handed_out_once(cluster: FakeCluster, client: ReadClient) -> None:
    with handed_out(client, {FIRST: 4, SECOND: 10}) as found:
        wait_until(lambda: found, "the first batch")
        log_of(cluster, SECOND, 2).log.append(5, 3)
        wait_until(lambda: len(found) == 2, "the second one")
    assert found == [{FIRST: (4, 10)}, {SECOND: (10, 13)}]


def test_a_partition_whose_leader_changes_is_asked_of_the_next_one(
    cluster: FakeCluster, client: ReadClient
) -> None:
    with handed_out(client, {FIRST: 0}) as found:
        wait_until(lambda: found, "the first batch")
        cluster.story.states[FIRST] = replace(led_by(2), leader_epoch=6)
        log_of(cluster, FIRST, 2).log.append(6, 2)
        wait_until(lambda: len(found) == 2, "what the next leader has")
    assert found[1] == {FIRST: (10, 12)}


@pytest.mark.parametrize("leader", [None, 1], ids=["without a leader", "whose leader hangs up"])
def test_a_partition_that_does_not_answer_holds_up_no_other(
    cluster: FakeCluster, client: ReadClient, leader: int | None
) -> None:
    def hang_up(_: Any) -> Any:
        raise HangUp

    cluster.story.states[FIRST] = led_by(leader)
    cluster.brokers[1].serve(ListOffsetsRequest, hang_up)
    with handed_out(client, {FIRST: 0, SECOND: 0}) as found:
        wait_until(lambda: found, "the other one")
        assert found == [{SECOND: (0, 10)}]
        cluster.story.states[FIRST] = led_by(2)
        wait_until(lambda: len(found) == 2, "the partition once it has a leader")
    assert found[1] == {FIRST: (0, 10)}


PARTITION = TopicPartition("t", 0)


def wanted(committed: int | None, log_start: int = 0, stable_end: int = 100) -> CopyStretch:
    """What is to be copied after everything before *committed* was."""
    source = PartitionSource(PARTITION, 1, log_start, stable_end, 100, EpochHistory((), 0), 0)
    segments = (SegmentSummary("s", 0, 1, ""),)
    held = PartitionSummary(0, committed, segments) if committed is not None else None
    return stretch(held, source)


@pytest.mark.parametrize(
    ("committed", "copied"),
    [
        pytest.param(20, (20, 30), id="just what follows"),
        pytest.param(25, (25, 30), id="a run has taken the first half"),
        pytest.param(30, (30, 30), id="replayed"),
        pytest.param(40, (40, 40), id="long passed"),
        pytest.param(10, (10, 30), id="the batch before was not committed"),
        pytest.param(None, (0, 30), id="another generation, with nothing yet"),
    ],
)
def test_a_batch_goes_on_where_the_commit_ends(
    committed: int | None, copied: tuple[int, int]
) -> None:
    one = within({PARTITION: (20, 30)}, wanted(committed))
    assert (one.start, one.end) == copied


def test_what_retention_took_stays_named() -> None:
    one = within({PARTITION: (20, 30)}, wanted(15, log_start=20))
    assert (one.start, one.end) == (20, 30)
    assert one.lost == (Gap(15, 20, GapReason.LOST),)
    cut = within({PARTITION: (20, 30)}, wanted(20, stable_end=24))
    assert (cut.start, cut.end) == (20, 24), "an end that was cut off is not waited for"
    assert within({TopicPartition("t", 1): (0, 5)}, wanted(20)).offsets == 0
