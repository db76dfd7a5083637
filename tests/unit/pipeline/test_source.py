"""What a backup copies: topics, where it goes on, and whether it is the same log."""

from __future__ import annotations

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


def manifest(topic_id: UUID | None, *partitions: PartitionSummary) -> TopicManifest:
    return TopicManifest(1, "", 1, 0, TopicIdentity("t", topic_id=topic_id), partitions)


def topic(topic_id: UUID = ONE, *partitions: PartitionSource) -> TopicSource:
    return TopicSource(TopicIdentity("t", topic_id=topic_id), partitions, {})


def test_the_first_backup_begins_at_the_log_start() -> None:
    found = stretch(None, source(start=7))
    assert (found.start, found.end, found.lost) == (7, 200, None)


def test_a_backup_goes_on_where_the_last_one_ended() -> None:
    assert stretch(held(60), source()).start == 60


def test_what_retention_took_before_it_was_copied_is_a_gap() -> None:
    found = stretch(held(60), source(start=90))
    assert (found.start, found.lost) == (90, Gap(60, 90, GapReason.LOST))


def test_nothing_is_copied_while_a_transaction_is_open() -> None:
    assert stretch(held(60), source(end=40)).offsets == 0


def test_another_topic_id_is_another_log() -> None:
    assert "recreated" in other_log(manifest(ONE), topic(OTHER))
    assert other_log(manifest(ONE), topic(ONE)) == ""
    assert other_log(manifest(None), topic(OTHER)) == ""
    assert other_log(None, topic(ONE)) == ""


def test_a_log_that_ends_earlier_was_cut() -> None:
    assert "ends at 100" in diverged(held(150), source(mark=100))
    assert "t-0: the log ends" in other_log(manifest(ONE, held(150)), topic(ONE, source(mark=100)))


def test_an_offset_of_another_epoch_was_written_anew() -> None:
    assert diverged(held(100, EpochStart(0, 0), EpochStart(3, 50)), source()) == ""
    assert "leader epoch 1" in diverged(held(100, EpochStart(1, 60)), source())


def test_the_last_record_of_a_segment_tells_of_all_before_it() -> None:
    """The first record is as it was; what follows was cut and written anew from 50 on."""
    segment = SegmentSummary("s", 0, 1, "", count=1, last_offset=80, epochs=(EpochStart(0, 0),))
    assert "offset 80" in diverged(PartitionSummary(0, 81, (segment,)), source())


def test_the_end_of_a_backup_tells_of_gaps_behind_its_records() -> None:
    """Markers stood at 60 and 61 under epoch 0; others' records stand there now."""
    segment = SegmentSummary("s", 0, 1, "", count=1, last_offset=40, epochs=(EpochStart(0, 0),))
    assert diverged(PartitionSummary(0, 62, (segment,), end_epoch=3), source()) == ""
    assert "offset 61" in diverged(PartitionSummary(0, 62, (segment,), end_epoch=0), source())


def test_an_epoch_that_begins_in_a_gap_is_no_cut() -> None:
    segment = SegmentSummary("s", 0, 1, "", count=1, last_offset=49, epochs=(EpochStart(0, 0),))
    later = SegmentSummary("u", 60, 1, "", count=1, last_offset=70, epochs=(EpochStart(3, 60),))
    held = PartitionSummary(0, 75, (segment, later), end_epoch=3)
    assert diverged(held, source()) == ""


def test_unknown_epochs_say_nothing() -> None:
    unread = PartitionSource(TopicPartition("t", 0), 1, 0, 9, 9, Unknown("not told"), 0)
    assert diverged(held(5, EpochStart(1, 0)), unread) == ""


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
