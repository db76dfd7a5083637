"""Where a backup resumes, and whether the log still continues it. Pure rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from breakglass.services.model import EpochHistory, Unknown
from breakglass.services.pipeline.source import PartitionSource, TopicSource
from breakglass.services.topic_backup.manifest import TopicManifest
from breakglass.services.topic_backup.summary import EpochStart, Gap, GapReason, PartitionSummary


@dataclass(frozen=True, slots=True)
class CopyStretch:
    """Offsets of one partition to copy."""

    source: PartitionSource
    start: int
    end: int
    lost: Gap | None = None
    """Offsets before *start* that were deleted before they were copied."""

    @property
    def number(self) -> int:
        """The number of the partition."""
        return self.source.partition.partition

    @property
    def offsets(self) -> int:
        return max(0, self.end - self.start)


def other_log(backed_up: TopicManifest | None, now: TopicSource) -> str:
    """Why the topic's log is not the log in the backup; empty if it is, or without a backup."""
    if backed_up is None:
        return ""
    was, is_now = backed_up.identity.topic_id, now.identity.topic_id
    if was is not None and is_now is not None and was != is_now:
        return f"the topic was deleted and recreated: its id was {was} and is {is_now}"
    for source in now.partitions:
        summary = backed_up.partition(source.partition.partition)
        reason = diverged(summary, source) if summary else ""
        if reason:
            return f"{source.partition}: {reason}"
    return ""


def diverged(backed_up: PartitionSummary, now: PartitionSource) -> str:
    """Why the log of one partition no longer continues its backup; empty if no evidence says so."""
    return cut_since(backed_up.next_offset, epochs_of(backed_up), now)


def epochs_of(backed_up: PartitionSummary) -> Iterator[EpochStart]:
    """Offsets of a backup with the leader epochs that wrote them: enough to detect any cut.

    A cut removes all offsets up to the end, and a later epoch writes them again. So the last record
    of a segment stands for all before it, and the end of a partition for gaps after its records.
    """
    for segment in backed_up.segments:
        yield from segment.epochs
        if segment.epochs and segment.last_offset is not None:
            yield EpochStart(segment.epochs[-1].epoch, segment.last_offset)
    if backed_up.end_epoch is not None and backed_up.next_offset:
        yield EpochStart(backed_up.end_epoch, backed_up.next_offset - 1)


def end_epoch(epochs: EpochHistory | Unknown, end: int) -> int | None:
    """The leader epoch that wrote the offset before *end*; None if unknown."""
    return epochs.epoch_at(end - 1) if isinstance(epochs, EpochHistory) and end > 0 else None


def cut_since(end: int | None, epochs: Iterable[EpochStart], now: PartitionSource) -> str:
    """Why a log that was read up to *end* was cut since; *epochs* has offsets and their epochs."""
    if end is not None and end > now.high_watermark:
        return (
            f"the log ends at {now.high_watermark} and offsets up to {end} were read: an unclean "
            "election cut it"
        )
    if not isinstance(now.epochs, EpochHistory):
        return ""
    for begun in epochs:
        found = now.epochs.epoch_at(begun.offset)
        if found is not None and found != begun.epoch:
            return (
                f"offset {begun.offset} had leader epoch {begun.epoch} and now has {found}: "
                "an unclean election replaced its record"
            )
    return ""


def stretch(backed_up: PartitionSummary | None, now: PartitionSource) -> CopyStretch:
    """The committed offsets of one partition that are not backed up yet."""
    done = backed_up.next_offset if backed_up else None
    if done is None:
        return CopyStretch(now, now.log_start, max(now.log_start, now.stable_end))
    start = max(done, now.log_start)
    lost = Gap(done, start, GapReason.LOST) if done < start else None
    return CopyStretch(now, start, max(start, now.stable_end), lost)
