"""What a backup copies: topics, where it goes on, and whether it is the same log."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from breakglass.services.errors import UsageError
from breakglass.services.model import EpochHistory, EpochRange, TopicPartition, Unknown
from breakglass.services.pipeline.backup import jobs
from breakglass.services.pipeline.source import (
    PartitionSource,
    TopicSource,
    WantedTopics,
    diverged,
    other_log,
    stretch,
)
from breakglass.services.topic_backup.manifest import TopicIdentity, TopicManifest
from breakglass.services.topic_backup.summary import (
    EpochStart,
    Gap,
    GapReason,
    PartitionSummary,
    SegmentSummary,
)

ONE, OTHER = UUID(int=1), UUID(int=2)
HISTORY = EpochHistory((EpochRange(0, 0, 50), EpochRange(3, 50, 200)), 0)


def source(start: int = 0, end: int = 200, mark: int = 200) -> PartitionSource:
    return PartitionSource(TopicPartition("t", 0), 1, start, end, mark, HISTORY, 0)


def held(next_offset: int | None, *epochs: EpochStart) -> PartitionSummary:
    segment = SegmentSummary("s", 0, 1, "", count=1, epochs=epochs)
    return PartitionSummary(0, next_offset, (segment,))


LOST = Gap(60, 90, GapReason.LOST)


def manifest(topic_id: UUID | None, *partitions: PartitionSummary) -> TopicManifest:
    return TopicManifest(1, "", 1, 0, TopicIdentity("t", topic_id=topic_id), partitions)


def topic(topic_id: UUID = ONE, *partitions: PartitionSource) -> TopicSource:
    return TopicSource(TopicIdentity("t", topic_id=topic_id), partitions, {})


@pytest.mark.parametrize(
    ("committed", "log", "copied"),
    [
        pytest.param(None, source(start=7), (7, 200, None), id="the first from the log start"),
        pytest.param(60, source(), (60, 200, None), id="another where the last one ended"),
        pytest.param(60, source(start=90), (90, 200, LOST), id="what retention took is a gap"),
        pytest.param(60, source(end=40), (60, 60, None), id="not before a transaction ends"),
    ],
)
def test_a_backup_copies(
    committed: int | None, log: PartitionSource, copied: tuple[int, int, Gap | None]
) -> None:
    found = stretch(held(committed) if committed else None, log)
    assert (found.start, found.start + found.offsets, found.lost) == copied


def test_another_topic_id_is_another_log() -> None:
    assert "recreated" in other_log(manifest(ONE), topic(OTHER))
    assert other_log(manifest(ONE), topic(ONE)) == ""
    assert other_log(manifest(None), topic(OTHER)) == ""
    assert other_log(None, topic(ONE)) == ""


def segment(last: int, *epochs: EpochStart, start: int = 0) -> SegmentSummary:
    return SegmentSummary("s", start, 1, "", count=1, last_offset=last, epochs=epochs)


OLD = EpochStart(0, 0)


@pytest.mark.parametrize(
    ("backup", "log", "told"),
    [
        (held(150), source(mark=100), "ends at 100"),
        (held(100, OLD, EpochStart(3, 50)), source(), ""),
        (held(100, EpochStart(1, 60)), source(), "leader epoch 1"),
        (PartitionSummary(0, 81, (segment(80, OLD),)), source(), "offset 80"),
        (PartitionSummary(0, 62, (segment(40, OLD),), end_epoch=3), source(), ""),
        (PartitionSummary(0, 62, (segment(40, OLD),), end_epoch=0), source(), "offset 61"),
        (
            PartitionSummary(
                0, 75, (segment(49, OLD), segment(70, EpochStart(3, 60), start=60)), end_epoch=3
            ),
            source(),
            "",
        ),
        (held(5, EpochStart(1, 0)), replace(source(), epochs=Unknown("not told")), ""),
    ],
    ids=[
        "it ends earlier",
        "the same epochs",
        "an offset of another epoch",
        "the last record tells of all before it",
        "markers behind the records are of the same epoch",
        "others' records stand where the markers were",
        "an epoch that begins in a gap is no cut",
        "unknown epochs say nothing",
    ],
)
def test_a_log_that_was_cut_or_written_anew_is_told(
    backup: PartitionSummary, log: PartitionSource, told: str
) -> None:
    found = diverged(backup, log)
    assert told in found
    assert bool(found) == bool(told)
    assert bool(other_log(manifest(ONE, backup), topic(ONE, log))) == bool(told)


@pytest.mark.parametrize(("offsets", "count"), [(200, 1), (100, 2), (70, 3)])
def test_long_stretches_are_cut_into_jobs(offsets: int, count: int) -> None:
    done = list(jobs([stretch(None, source())], offsets))
    assert len(done) == count
    assert done[0][0].start == 0
    assert done[-1][-1].end == 200


def test_a_gap_is_told_with_the_first_job_alone() -> None:
    done = list(jobs([stretch(held(60), source(start=90))], 20))
    assert [bool(job[0].lost) for job in done] == [True, *([False] * (len(done) - 1))]


def test_topics_are_chosen_by_name_and_by_pattern() -> None:
    existing = ["orders", "orders-2", "payments", "__consumer_offsets"]
    assert WantedTopics(("payments",), "orders.*").choose(existing) == [
        "orders",
        "orders-2",
        "payments",
    ]
    assert WantedTopics(pattern=".*").choose(existing) == ["orders", "orders-2", "payments"]
    assert WantedTopics(("__consumer_offsets",)).choose(existing) == ["__consumer_offsets"]


def test_a_topic_that_is_missing_and_a_broken_pattern_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="no topic nowhere"):
        WantedTopics(("nowhere",)).choose(["orders"])
    with pytest.raises(UsageError, match="--topics-regex"):
        WantedTopics(pattern="(").choose(["orders"])
