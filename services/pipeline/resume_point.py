"""Where a backup goes on, and whether it may: pure rules over what is held and what there is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from services.model import EpochHistory, Unknown
from services.pipeline.source import PartitionSource, TopicSource
from services.topic_backup.manifest import TopicManifest
from services.topic_backup.summary import EpochStart, Gap, GapReason, PartitionSummary


@dataclass(frozen=True, slots=True)
class CopyStretch:
    """What of one partition is to be copied."""

    source: PartitionSource
    start: int
    end: int
    lost: Gap | None = None
    """Offsets before *start* that retention or a deletion took before they were copied."""

    @property
    def number(self) -> int:
        """Of the partition."""
        return self.source.partition.partition

    @property
    def offsets(self) -> int:
        return max(0, self.end - self.start)


def other_log(held: TopicManifest | None, now: TopicSource) -> str:
    """Why the topic's log is not the one that was backed up; empty if it is, or nothing was."""
    if held is None:
        return ""
    was, is_now = held.identity.topic_id, now.identity.topic_id
    if was is not None and is_now is not None and was != is_now:
        return f"the topic was deleted and created again: its id was {was} and is {is_now}"
    for source in now.partitions:
        summary = held.partition(source.partition.partition)
        reason = diverged(summary, source) if summary else ""
        if reason:
            return f"{source.partition}: {reason}"
    return ""


def diverged(held: PartitionSummary, now: PartitionSource) -> str:
    """Why the log of one partition was cut or written anew since; empty if nothing says so."""
    return cut_since(held.next_offset, epochs_of(held), now)


def epochs_of(held: PartitionSummary) -> Iterator[EpochStart]:
    """Offsets of a backup with the leader epochs that wrote them: enough to notice any cut.

    What is cut is cut to the end, and then written under a later epoch. So the last record of a
    segment tells of all before it, and the end of a partition tells of gaps behind its records.
    """
    for segment in held.segments:
        yield from segment.epochs
        if segment.epochs and segment.last_offset is not None:
            yield EpochStart(segment.epochs[-1].epoch, segment.last_offset)
    if held.end_epoch is not None and held.next_offset:
        yield EpochStart(held.end_epoch, held.next_offset - 1)


def end_epoch(epochs: EpochHistory | Unknown, end: int) -> int | None:
    """The leader epoch that wrote the offset before *end*; None where that is not known."""
    return epochs.epoch_at(end - 1) if isinstance(epochs, EpochHistory) and end > 0 else None


def cut_since(end: int | None, epochs: Iterable[EpochStart], now: PartitionSource) -> str:
    """The same of a log that was read up to *end*; *epochs* wrote the offsets given with them."""
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
                f"offset {begun.offset} was of leader epoch {begun.epoch} and is of {found}: "
                "after an unclean election it was overwritten"
            )
    return ""


def stretch(held: PartitionSummary | None, now: PartitionSource) -> CopyStretch:
    """What of one partition is not backed up yet and can be read as committed."""
    done = held.next_offset if held else None
    if done is None:
        return CopyStretch(now, now.log_start, max(now.log_start, now.stable_end))
    start = max(done, now.log_start)
    lost = Gap(done, start, GapReason.LOST) if done < start else None
    return CopyStretch(now, start, max(start, now.stable_end), lost)
