"""What a backup copies: topics, where it goes on, and whether it is the same log."""

from dataclasses import replace
from uuid import UUID

import pytest

from breakglass.services.model import EpochHistory, EpochRange, TopicPartition, Unknown
from breakglass.services.pipeline.backup import jobs
from breakglass.services.pipeline.source import (
    TO_BE_COPIED,
    UNSEEN_CUT,
    PartitionSource,
    TopicSource,
    diverged,
    lost_deletions,
    other_log,
    stretch,
    unseen_cut,
)
from breakglass.services.topic_backup.manifest import TopicIdentity, TopicManifest
from breakglass.services.topic_backup.summary import (
    EpochStart,
    Gap,
    GapReason,
    LogLook,
    PartitionSummary,
    SegmentSummary,
    Unproved,
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
        pytest.param(None, source(start=7), (7, 200, ()), id="the first from the log start"),
        pytest.param(60, source(), (60, 200, ()), id="another where the last one ended"),
        pytest.param(60, source(start=90), (90, 200, (LOST,)), id="what retention took is a gap"),
        pytest.param(60, source(end=40), (60, 60, ()), id="not before a transaction ends"),
    ],
)
def test_a_backup_copies(
    committed: int | None, log: PartitionSource, copied: tuple[int, int, tuple[Gap, ...]]
) -> None:
    found = stretch(held(committed) if committed else None, log)
    assert (found.start, found.start + found.offsets, found.lost) == copied


def test_b20_what_the_generation_before_lost_stays_lost() -> None:
    gaps = (Gap(3, 5, GapReason.LOST), Gap(7, 9, GapReason.COMPACTION))
    older = replace(held(60), segments=(replace(segment(59), gaps=gaps),))
    assert stretch(held(None), source(start=90), older).lost == (gaps[0], LOST)
    assert stretch(held(None), source(), older).lost == (), "the log has these offsets again"
    assert stretch(held(95), source(start=90), older).lost == ()


def test_another_topic_id_is_another_log() -> None:
    assert "recreated" in other_log(manifest(ONE), topic(OTHER))
    assert other_log(manifest(ONE), topic(ONE)) == ""
    assert other_log(manifest(None), topic(OTHER)) == ""
    assert other_log(None, topic(ONE)) == ""


@pytest.mark.parametrize("end", [40, 60], ids=["behind a loss", "where the backup ends"])
def test_b33_a_log_without_a_record_of_the_backup_continues_it_only_by_a_leader_epoch(
    end: int,
) -> None:
    """The log begins at 60, in epoch 3."""
    now = replace(source(start=60), epochs=EpochHistory((EpochRange(3, 60, 200),), 60))
    whole = replace(held(end), segments=(replace(segment(end - 1), first_offset=10),))
    for unknown in (replace(whole, end_epoch=2), whole):
        doubt = unseen_cut(unknown, now)
        assert doubt == Unproved(10, end, UNSEEN_CUT)
        assert unseen_cut(replace(unknown, unproved=(doubt,)), now) is None, "it is said once"
        assert unseen_cut(unknown, replace(now, epochs=Unknown("not told"))) == doubt
    assert unseen_cut(replace(whole, end_epoch=3), now) is None, "a leader only appends"
    empty = replace(now, epochs=EpochHistory((), 60), leader_epoch=3)
    assert unseen_cut(replace(whole, end_epoch=3), empty) is None, "it leads since"
    assert unseen_cut(replace(whole, next_offset=70), now) == doubt, (
        "no record is left all the same"
    )
    longer = replace(whole, next_offset=70, segments=(replace(segment(60), first_offset=10),))
    assert unseen_cut(longer, now) is None, "offset 60 is compared"
    assert unseen_cut(held(end), now) is None, "no record could have been replaced"
    assert "had leader epoch 4" in diverged(replace(whole, end_epoch=4), now)
    assert diverged(replace(whole, end_epoch=2), now) == ""


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


HOUR, DAY = 3_600_000, 86_400_000
LAST, NOW = 10 * DAY, 11 * DAY
HOLE, MARKER, GONE = ({reason} for reason in ("compaction", "control", "lost"))


@pytest.mark.parametrize(
    ("committed", "kept", "missing", "since"),
    [
        pytest.param(LogLook(LAST, DAY), DAY, HOLE, LAST, id="a day has passed"),
        pytest.param(LogLook(LAST, 2 * DAY), 2 * DAY, HOLE, None, id="deletions are kept longer"),
        pytest.param(LogLook(LAST, 2 * DAY), DAY, HOLE, LAST, id="kept shorter by now"),
        pytest.param(LogLook(LAST, DAY), 2 * DAY, HOLE, LAST, id="kept shorter then"),
        pytest.param(LogLook(NOW - HOUR, DAY), DAY, HOLE, None, id="an hour has passed"),
        pytest.param(LogLook(NOW - DAY + 1, DAY), DAY, HOLE, NOW - DAY + 1, id="clocks differ"),
        pytest.param(LogLook(LAST, DAY), DAY, set(), None, id="every offset is there"),
        pytest.param(LogLook(LAST, DAY), DAY, MARKER, None, id="markers are no deletions"),
        pytest.param(LogLook(LAST, DAY), DAY, {"unknown"}, LAST, id="an unknown gap may be one"),
        pytest.param(LogLook(NOW, DAY), DAY, GONE, NOW, id="retention keeps no deletion"),
        pytest.param(None, DAY, HOLE, 0, id="an older release looked"),
    ],
)
def test_b16_deletions_may_be_lost_once_they_may_have_been_removed(
    committed: LogLook | None, kept: int, missing: set[str], since: int | None
) -> None:
    settings = {"cleanup.policy": "compact", "delete.retention.ms": str(kept)}
    now = replace(topic(), read_at_ms=NOW, settings=settings)
    found = lost_deletions(replace(held(60), look=committed), now, missing, NOW)
    assert (None if found is None else found.at_ms) == since
    plain = replace(now, settings={**settings, "cleanup.policy": "delete"})
    found = lost_deletions(replace(held(60), look=committed), plain, missing, NOW)
    # Compaction alone leaves offsets out: the topic was compacted since the last run.
    assert bool(found) == bool(missing & {"compaction", "unknown"})
    assert lost_deletions(held(None), plain, missing, NOW) is None


def test_a_topic_that_could_not_be_copied_anew_is_once_every_partition_can_be_read() -> None:
    settings = {"cleanup.policy": "compact", "delete.retention.ms": str(DAY)}
    now = replace(topic(), read_at_ms=NOW, settings=settings)
    look = LogLook(NOW - HOUR, DAY)
    waiting = replace(held(60), look=look, unproved=(Unproved(0, 60, TO_BE_COPIED),))
    assert lost_deletions(waiting, now, set(), NOW) == look
    assert lost_deletions(waiting, replace(now, unread={1: "offline"}), set(), NOW) is None
    other = replace(waiting, unproved=(Unproved(0, 60, "damaged"),))
    assert lost_deletions(other, now, set(), NOW) is None


def test_a_whole_copy_loses_no_deletion_unless_it_takes_longer_than_they_are_kept() -> None:
    settings = {"cleanup.policy": "compact", "delete.retention.ms": str(DAY)}
    now = replace(topic(), read_at_ms=NOW, settings=settings)
    assert lost_deletions(held(None), now, HOLE, NOW + DAY - 1) is None
    assert lost_deletions(held(None), now, HOLE, NOW + DAY) == now.look
    hidden = replace(topic(), read_at_ms=NOW, identity=replace(now.identity, config=settings))
    assert lost_deletions(held(None), hidden, HOLE, NOW) == LogLook(NOW, 0)


def test_a_gap_is_told_with_the_first_job_alone() -> None:
    done = list(jobs([stretch(held(60), source(start=90))], 20))
    assert [bool(job[0].lost) for job in done] == [True, *([False] * (len(done) - 1))]
