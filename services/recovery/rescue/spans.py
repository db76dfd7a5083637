"""Decides what to save of each replica before an election, by the same rules as the loss. Pure.

A follower of the new leader truncates where its log diverges, and raises its log start to the
leader's. If the divergence is unknown, all records that may be dropped are saved.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from breakglass.services.errors import StorageError
from breakglass.services.model import (
    Forfeited,
    PartitionEvidence,
    ReplicaLog,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.judgement.lineage import (
    Divergences,
    LogStretch,
    Parting,
    shared_with,
    without,
)
from breakglass.services.recovery.judgement.loss import (
    Drop,
    cut_by_return,
    drops_from,
    only_holders,
)
from breakglass.services.recovery.judgement.ranking import holds_records
from breakglass.services.recovery.judgement.succession import inheritors
from breakglass.services.topic_backup.folder import storage_errors


@dataclass(frozen=True, slots=True)
class AtRisk:
    """A partition about to be elected."""

    evidence: PartitionEvidence
    designee: int

    @property
    def partition(self) -> TopicPartition:
        return self.evidence.partition


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The offsets ``[start, end)``."""

    start: int
    end: int

    @property
    def offsets(self) -> int:
        """The number of offsets; fewer records where a log was compacted."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Share:
    """What is saved from a replica."""

    evidence: PartitionEvidence
    replica: ReplicaLog
    spans: tuple[Span, ...]
    """The spans, sorted by offset; they do not touch."""

    @property
    def partition(self) -> TopicPartition:
        return self.evidence.partition

    @property
    def offsets(self) -> int:
        return sum(span.offsets for span in self.spans)


def at_risk_of_return(evidence: PartitionEvidence, broker: int) -> AtRisk | None:
    """What is to be saved before *broker* returns; None if it does not lead, or cuts nothing."""
    if not inherits(evidence, broker):
        return None
    cut = cut_by_return(evidence, broker)
    return None if cut is None else AtRisk(only_holders(evidence, cut), broker)


def unread_beside(evidence: PartitionEvidence, broker: int) -> tuple[int, ...]:
    """Brokers whose logs could not be read, where *broker* leads when it returns.

    What they alone hold is cut, too, once they follow, and no rescue saves it before.
    """
    if not inherits(evidence, broker):
        return ()
    return tuple(
        [
            replica.broker
            for replica in evidence.replicas
            if replica.broker != broker and isinstance(replica.log_end, Unknown)
        ]
    )


def inherits(evidence: PartitionEvidence, broker: int) -> bool:
    """Whether *broker* leads the partition as soon as it returns."""
    return evidence.state.offline and broker in inheritors(evidence.state)


def harm_of(partitions: Iterable[PartitionEvidence], broker: int) -> str:
    """Why *broker* is to be kept down, by what it reported earlier; empty if nothing says so."""
    for evidence in partitions:
        replica = evidence.replica(broker)
        if replica is not None and isinstance(replica.log_end, Forfeited):
            return replica.log_end.reason
    return ""


def shares_of(at_risk: AtRisk) -> tuple[Share, ...] | Unknown:
    """What electing the designee cuts off readable replicas; empty if nothing.

    A record that several replicas have, by epoch and offset, is taken from one of them. On
    compacted topics, where each replica compacts its own log, it is taken from all. Unreadable
    replicas have no share. Unknown, with the reason, if the start of a log to be saved is unknown.
    """
    evidence = at_risk.evidence
    divergences = Divergences(evidence.replicas)
    stretches: list[LogStretch] = []
    for stretch in _dropped(evidence, at_risk.designee, divergences):
        if isinstance(stretch, Unknown):
            return stretch
        stretches.append(stretch)
    if evidence.settings.compacted is False:
        stretches = _each_once(stretches, divergences.between)
    return tuple(_shares(evidence, stretches))


def _dropped(
    evidence: PartitionEvidence, designee: int, divergences: Divergences
) -> Iterator[LogStretch | Unknown]:
    chosen = evidence.replica(designee)
    if chosen is None or isinstance(chosen.log_end, Unknown):
        for replica in evidence.replicas:
            if replica.broker != designee and isinstance(replica.log_end, int):
                yield from _whole(replica, replica.log_end)
        return
    for drop in drops_from(evidence, chosen, divergences):
        yield from _of_replica(drop, chosen)


def _of_replica(drop: Drop, chosen: ReplicaLog) -> Iterator[LogStretch | Unknown]:
    """Head and tail of a replica; the whole log where the tail is unknown."""
    replica, end = drop.replica, drop.replica.log_end
    if isinstance(drop.tail, Unknown) and isinstance(end, int):
        yield from _whole(replica, end)
        return
    if isinstance(drop.head, Unknown) and isinstance(end, int):
        # The latest offset at which a head of unknown size ends.
        yield from _whole(
            replica, min(end, chosen.log_start) if isinstance(chosen.log_start, int) else end
        )
    elif isinstance(drop.head, LogStretch):
        yield drop.head
    if isinstance(drop.tail, LogStretch):
        yield drop.tail


def _whole(replica: ReplicaLog, end: int) -> Iterator[LogStretch | Unknown]:
    if not holds_records(replica):
        return
    if isinstance(replica.log_start, Unknown):
        yield replica.log_start
    elif replica.log_start < end:
        yield LogStretch(replica, replica.log_start, end)


def _each_once(stretches: Sequence[LogStretch], parting: Parting) -> list[LogStretch]:
    """*stretches* without records that a longer stretch has too.

    Two replicas that are not known to have the same records are taken to have different records.
    """
    kept: list[LogStretch] = []
    longest_first = sorted(
        stretches, key=lambda stretch: (stretch.start - stretch.end, stretch.replica.broker)
    )
    for place, stretch in enumerate(longest_first):
        shared = sorted(
            span
            for other in longest_first[:place]
            for span in _spans_shared(stretch, other, parting)
        )
        kept += [stretch._replace(start=start, end=end) for start, end in without(stretch, shared)]
    return kept


def _spans_shared(
    stretch: LogStretch, other: LogStretch, parting: Parting
) -> Iterable[tuple[int, int]]:
    if stretch.replica.broker == other.replica.broker:
        return ()
    shared = shared_with(stretch, [other], parting)
    return () if isinstance(shared, Unknown) else shared


def _shares(evidence: PartitionEvidence, stretches: Sequence[LogStretch]) -> Iterator[Share]:
    ordered = sorted(stretches, key=lambda stretch: (stretch.replica.broker, stretch.start))
    for _, group in groupby(ordered, key=lambda stretch: stretch.replica.broker):
        held = list(group)
        yield Share(evidence, held[0].replica, tuple(_joined(held)))


def _joined(stretches: Sequence[LogStretch]) -> Iterator[Span]:
    """*stretches* of one replica, by offset, with adjacent stretches merged."""
    start, end = stretches[0].start, stretches[0].end
    for stretch in stretches[1:]:
        if stretch.start > end:
            yield Span(start, end)
            start = stretch.start
        end = max(end, stretch.end)
    yield Span(start, end)


@dataclass(frozen=True, slots=True)
class RescueProgress:
    """The progress of a rescue."""

    folder: Path
    partitions: int
    """Partitions of which something will be saved."""
    copied: int
    """Records that were copied."""
    at_most: int
    """Offsets to be copied; fewer records where a log was compacted."""


@dataclass(frozen=True, slots=True)
class Saved:
    """What was saved from one replica, durable and committed."""

    broker: int
    spans: tuple[Span, ...]
    """The offsets that were asked for; all are saved unless the partition has a reason."""
    records: int
    """Data records written; transaction markers stand in the batch log beside them."""
    bytes: int
    """Bytes of the records files."""
    path: Path
    """Address for `breakglass backup cat`: folder of the backup, topic, partition."""


@dataclass(frozen=True, slots=True)
class RescuedPartition:
    """The result of a partition."""

    partition: TopicPartition
    designee: int
    saved: tuple[Saved, ...] = ()
    """The saved records, by replica."""
    reason: str = ""
    """Why something is missing; empty when nothing is."""

    @property
    def whole(self) -> bool:
        """All that the election cuts off readable replicas is saved."""
        return not self.reason

    @property
    def records(self) -> int:
        return sum(saved.records for saved in self.saved)


RESERVE_BYTES = 64 * 1024 * 1024
"""Bytes that always stay free: the journal may be on the same disk."""
MARGIN = 1.2
"""The factor by which a rescue may exceed its estimate."""
BYTES_A_RECORD = 64
"""Bytes of a record beside its content: its fixed fields and its index entry."""

FreeBytes = Callable[[Path], int]


def free_bytes(folder: Path) -> int:
    """Bytes that this user may still write at *folder*, which need not exist yet.

    Raises:
        StorageError: the file system cannot be asked.
    """
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    with storage_errors(str(existing)):
        return shutil.disk_usage(existing).free


def estimate(share: Share) -> int | Unknown:
    """About how many bytes *share* takes, if its batches are not compressed.

    The share's part of the log's size by offsets (DescribeLogDirs), and what the format adds.
    Unknown if the log's size is unknown.
    """
    replica = share.replica
    if isinstance(replica.log_dir, Unknown):
        return replica.log_dir
    size, start, end = replica.log_dir.size, replica.log_start, replica.log_end
    if isinstance(size, Unknown):
        return size
    if isinstance(start, Unknown):
        return start
    if isinstance(end, Unknown):
        return end
    part = share.offsets / max(1, end - start)
    return int(size * part) + share.offsets * BYTES_A_RECORD


def without_room(
    shares: Mapping[TopicPartition, tuple[Share, ...]], folder: Path, free: FreeBytes = free_bytes
) -> dict[TopicPartition, str]:
    """Partitions that will not fit into *folder*, with the reason; the earlier ones come first.

    For shares of unknown size only what the format adds is counted: `require_reserve` stops them
    before the disk is full.

    Raises:
        StorageError: the file system cannot be asked.
    """
    left = free(folder) - RESERVE_BYTES
    refused: dict[TopicPartition, str] = {}
    for partition, held in shares.items():
        needed = needed_bytes(held)
        if needed > left or left < 0:
            refused[partition] = (
                f"it needs about {_megabytes(needed)} and {_megabytes(max(0, left))} may be used "
                f"in {folder}: free space there or name another folder"
            )
        else:
            left -= needed
    return refused


def require_reserve(folder: Path, free: FreeBytes = free_bytes) -> None:
    """Raise StorageError when the reserve is touched: estimates fail, disks fill from elsewhere."""
    if free(folder) < RESERVE_BYTES:
        raise StorageError(
            f"less than {_megabytes(RESERVE_BYTES)} are left in {folder}: free space there or name "
            "another folder"
        )


def needed_bytes(shares: Iterable[Share]) -> int:
    """About how many bytes *shares* take; what the format adds, where a size is unknown."""
    sizes = ((share, estimate(share)) for share in shares)
    return int(
        sum(
            share.offsets * BYTES_A_RECORD if isinstance(size, Unknown) else size
            for share, size in sizes
        )
        * MARGIN
    )


def room(folder: Path, free: FreeBytes = free_bytes) -> int:
    """Bytes that a rescue may write in *folder*. Raises: StorageError."""
    return max(0, free(folder) - RESERVE_BYTES)


def _megabytes(size: int) -> str:
    return f"{-(-size // 1_000_000):,} MB"


Shares = Mapping[TopicPartition, tuple[Share, ...]]


@dataclass(frozen=True, slots=True)
class UnsavedOffsets:
    """Offsets of one replica that a budget has no room for."""

    broker: int
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        offsets = ", ".join(f"{span.start:,}-{span.end - 1:,}" for span in self.spans)
        return f"offsets {offsets} of b{self.broker}"


def newest_within(
    shares: Shares, budget: int
) -> tuple[
    dict[TopicPartition, tuple[Share, ...]], dict[TopicPartition, tuple[UnsavedOffsets, ...]]
]:
    """What of *shares* takes about *budget* bytes, and what is left out of each partition.

    Of each log the newest records are kept: a power cut takes those that were written last. So
    where not all can be saved, what a log begins with is left out, and named (R26).
    No partition is left out for the sake of a larger one: each gets as many bytes as any other,
    or all that it needs.
    """
    sizes = {partition: needed_bytes(held) for partition, held in shares.items()}
    most = _each(list(sizes.values()), max(0, budget))
    kept: dict[TopicPartition, tuple[Share, ...]] = {}
    left: dict[TopicPartition, tuple[UnsavedOffsets, ...]] = {}
    for partition, held in shares.items():
        if sizes[partition] <= most:
            kept[partition] = held
            continue
        cut = [_newest(share, most / sizes[partition]) for share in held]
        taken = tuple([share for share, _ in cut if share.spans])
        left[partition] = tuple([out for _, out in cut if out.spans])
        if taken:
            kept[partition] = taken
    return kept, left


def _each(sizes: list[int], budget: int) -> float:
    """The most that each of *sizes* may take, so that all take no more than *budget*."""
    left, number = budget, len(sizes)
    for size in sorted(sizes):
        if size * number > left:
            return left / number
        left -= size
        number -= 1
    return max(sizes, default=0)


def _newest(share: Share, part: float) -> tuple[Share, UnsavedOffsets]:
    wanted = int(share.offsets * part)
    kept: list[Span] = []
    out: list[Span] = []
    for span in reversed(share.spans):
        start = max(span.start, span.end - wanted)
        wanted -= span.end - start
        if start < span.end:
            kept.append(Span(start, span.end))
        if span.start < start:
            out.append(Span(span.start, start))
    return replace(share, spans=tuple(kept[::-1])), UnsavedOffsets(
        share.replica.broker, tuple(out[::-1])
    )
