"""Ranks copies of the metadata log, and compares each with the best batch by batch.

Raft elects by the epoch of the last record, then by the log's end, and so are copies ranked here.
Two copies are compared by offset, epoch and CRC of every batch that both have. Where one of them
begins later, what was before is in its snapshot, whose id names an offset and the epoch before it:
by raft two logs that agree on the epoch before an offset agree on what is before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from breakglass.services.quorum.metadata_copy import Batch, MetadataCopy, MetadataSnapshot


class Relation(StrEnum):
    """What a copy is to the best one."""

    BEST = "best"
    PREFIX = "prefix"
    FORK = "fork"
    UNCOMPARED = "not compared"


@dataclass(frozen=True, slots=True)
class LogFork:
    """Where two copies part: the first offset of which they have different batches."""

    offset: int
    best: Batch | None
    """None: it has no batch there."""
    copy: Batch | None

    @property
    def same_records(self) -> bool:
        """Only the epochs differ, which no CRC covers: one of the two is damaged."""
        if self.best is None or self.copy is None:
            return False
        return self.best._replace(epoch=0) == self.copy._replace(epoch=0)


@dataclass(frozen=True, slots=True)
class ComparedCopy:
    """A copy as compared with the best one."""

    copy: MetadataCopy
    relation: Relation
    start: int
    """Batches are compared in ``[start, end)``, where both copies have some; empty: none were."""
    end: int
    shared: int
    """Before this offset the copy has what the best one has."""
    by_id: bool = False
    """No batch could be compared: the epoch before the copy's end is the same in both."""
    fork: LogFork | None = None

    @property
    def proved(self) -> bool:
        return self.relation in (Relation.BEST, Relation.PREFIX)

    @property
    def apart(self) -> bool:
        """It and the best one part where both begin: one of the two was formatted again."""
        fork = self.fork
        return fork is not None and fork.offset <= self.start and not fork.same_records

    def snapshots_past(self, shared: int) -> tuple[MetadataSnapshot, ...]:
        """Snapshots that a truncation to *shared* leaves in place (Q22)."""
        return tuple(one for one in self.copy.snapshots if one.offset > shared)


def compare_copies(
    copies: Sequence[MetadataCopy], best: MetadataCopy | None = None
) -> tuple[ComparedCopy, ...]:
    """All of *copies*, the best one first; copies of the same rank stay in their order.

    With *best* given, it is that one.
    """
    ranked = sorted(copies, key=lambda copy: (copy.end, not copy.damage), reverse=True)
    best = best or ranked[0]
    first = ComparedCopy(best, Relation.BEST, best.log_start, best.end.offset, best.end.offset)
    return (first, *(_compared(copy, best) for copy in ranked if copy is not best))


def _compared(copy: MetadataCopy, best: MetadataCopy) -> ComparedCopy:
    ours, theirs = copy.batches, best.batches
    start = max(copy.log_start, best.log_start)
    end = min(batches.ends[-1] if len(batches) else 0 for batches in (ours, theirs))
    if start >= end:
        return _by_id(copy, best, start)
    here, there = ours.number_at(start), theirs.number_at(start)
    count = min(ours.number_at(end - 1) - here, theirs.number_at(end - 1) - there) + 1
    columns = zip(
        (ours.starts, ours.ends, ours.epochs, ours.crcs),
        (theirs.starts, theirs.ends, theirs.epochs, theirs.crcs),
        strict=True,
    )
    if any(mine[here : here + count] != its[there : there + count] for mine, its in columns):
        at = next(step for step in range(count) if ours[here + step] != theirs[there + step])
        offset = ours[here + at].offset
        fork = LogFork(offset, theirs[there + at], ours[here + at])
        return ComparedCopy(copy, Relation.FORK, start, offset, offset, fork=fork)
    if copy.end.offset > best.end.offset:
        fork = LogFork(end, None, ours[here + count] if here + count < len(ours) else None)
        return ComparedCopy(copy, Relation.FORK, start, end, end, fork=fork)
    if copy.end.offset > end:
        # Its newest snapshot lies past its last batch.
        return _by_id(copy, best, start, end)
    return ComparedCopy(copy, Relation.PREFIX, start, end, end)


def _by_id(copy: MetadataCopy, best: MetadataCopy, start: int, end: int = 0) -> ComparedCopy:
    """Compare by the epoch before the end of the copy, in place of batches."""
    epoch, offset = copy.end
    known = best.epoch_before(offset)
    if known is None or offset == 0:
        return ComparedCopy(copy, Relation.UNCOMPARED, start, max(start, end), 0)
    if known == epoch:
        return ComparedCopy(
            copy, Relation.PREFIX, start, max(start, end), offset, by_id=end <= start
        )
    at = end if end > start else 0
    return ComparedCopy(copy, Relation.FORK, start, at or start, at, fork=LogFork(at, None, None))
