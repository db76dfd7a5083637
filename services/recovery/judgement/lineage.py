"""Where two replicas of a partition stop being the same log.

Everything here rests on one property, log matching: a leader epoch has one leader, a leader
gives each offset to one record only, and a follower appends a leader's records only where its
log agrees with the leader's up to there. So two replicas that hold the same epoch at the same
offset hold the same records at every lower offset that both still have. The offsets on which
two replicas agree are therefore a prefix of what they share, and it ends where the highest
epoch that both of them wrote ends first: no record has to be compared.

Sources: KIP-101 (truncation by epoch), KIP-279 (more than one step), KIP-595 (DivergingEpoch in
Fetch); LeaderEpochFileCache.endOffsetFor, Partition.fetchRecords and
AbstractFetcherThread.getOffsetTruncationState, fetchOffsetAndTruncate of Kafka 4.3.1.

Counts the distinct records of several replicas without reading a record.
What a replica drops is a stretch of its log. Two replicas have the same records from where
both begin to where they diverge, and different records after it. So a stretch minus what earlier
stretches share with it is arithmetic on offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from breakglass.services.model import EpochHistory, ReplicaLog, Unknown
from breakglass.services.quick_values import quickly_made


def divergence(log: ReplicaLog, other: ReplicaLog) -> int | Unknown:
    """The first offset at which *log* and *other* stop being the same log.

    A log that is a prefix of the other diverges at its own end. Where the divergence is below
    one log's start, it is known only if they share an epoch; otherwise it is given as the first
    offset that both hold, below which nothing of both is left. A log without records diverges
    at its end, as brokers have it. Symmetric.

    Unknown when an end or a history could not be read, when the histories do not reach back
    to a common epoch, or when the logs share neither offsets nor an order of epochs.
    """
    if isinstance(log.epochs, Unknown):
        return log.epochs
    if isinstance(other.epochs, Unknown):
        return other.epochs
    common = common_epoch_end(log.epochs, other.epochs)
    if common is not None:
        return common
    return _without_common_epoch(log, log.epochs, other, other.epochs)


def common_epoch_end(ours: EpochHistory, theirs: EpochHistory) -> int | None:
    """Where the highest epoch that both wrote ends first; None without a known common one."""
    i, j = len(ours.ranges) - 1, len(theirs.ranges) - 1
    while i >= 0 and j >= 0:
        left, right = ours.ranges[i], theirs.ranges[j]
        if left.epoch == right.epoch:
            return left.end if left.end < right.end else right.end
        if left.epoch > right.epoch:
            i -= 1
        else:
            j -= 1
    return None


def _without_common_epoch(
    log: ReplicaLog, ours: EpochHistory, other: ReplicaLog, theirs: EpochHistory
) -> int | Unknown:
    if isinstance(log.log_end, Unknown):
        return log.log_end
    if isinstance(other.log_end, Unknown):
        return other.log_end
    gap = history_gap(log, ours) or history_gap(other, theirs)
    if gap:
        return gap
    if not ours.ranges or not theirs.ranges:
        return min(log.log_end, other.log_end)
    first, second = sorted((ours.ranges, theirs.ranges), key=lambda ranges: ranges[-1].end)
    starts = [each.log_start for each in (log, other) if isinstance(each.log_start, int)]
    shared_start = max(first[0].start, second[0].start, *starts)
    if shared_start < first[-1].end:
        return shared_start
    if first[-1].epoch < second[0].epoch:
        return first[-1].end
    return Unknown(f"b{log.broker} and b{other.broker} have no offset in common")


def history_gap(log: ReplicaLog, history: EpochHistory) -> Unknown | None:
    """Why *history*, of *log*, does not reach back to its start; None when it does."""
    if isinstance(log.log_start, Unknown):
        return log.log_start
    if not history.ranges:
        return None if log.empty else Unknown(f"the records of b{log.broker} carry no leader epoch")
    if max(history.complete_from, history.ranges[0].start) > log.log_start:
        return Unknown(
            f"the epochs of b{log.broker} before offset {history.complete_from} were not read"
        )
    return None


class Divergences:
    """Where each two replicas of one partition diverge, worked out when asked and kept.

    A pair whose histories do not reach a common epoch may be settled by a third replica: if
    it parts from one of them earlier than from the other, they part there as well. Only a third
    that shares an epoch with each of them can help: without one, its divergence is where its own
    log begins or ends, and the two may have parted before.
    """

    def __init__(self, replicas: Iterable[ReplicaLog]) -> None:
        self._replicas = tuple(replicas)
        self._found: dict[tuple[int, int], int | Unknown] = {}

    def between(self, log: ReplicaLog, other: ReplicaLog) -> int | Unknown:
        """`divergence` of *log* and *other*, with the help of the other replicas."""
        left, right = log.broker, other.broker
        pair = (left, right) if left < right else (right, left)
        found = self._found.get(pair)
        if found is None:
            found = divergence(log, other)
            if isinstance(found, Unknown):
                found = self._through_a_third(log, other, found)
            self._found[pair] = found
        return found

    def _through_a_third(
        self, log: ReplicaLog, other: ReplicaLog, unsettled: Unknown
    ) -> int | Unknown:
        for third in self._replicas:
            if third.broker not in (log.broker, other.broker):
                left, right = _exact(log, third), _exact(third, other)
                if left is not None and right is not None and left != right:
                    return min(left, right)
        return unsettled


def _exact(log: ReplicaLog, other: ReplicaLog) -> int | None:
    """Their divergence where a common epoch shows it, whatever either log has deleted."""
    if isinstance(log.epochs, Unknown) or isinstance(other.epochs, Unknown):
        return None
    return common_epoch_end(log.epochs, other.epochs)


Count = int | Unknown
"""Records; Unknown with the reason where a replica's figures do not allow to count."""

Parting = Callable[[ReplicaLog, ReplicaLog], int | Unknown]
"""Where two replicas diverge."""


class LogStretch(NamedTuple):
    """The records of one replica at the offsets ``[start, end)``."""

    replica: ReplicaLog
    start: int
    end: int


@quickly_made
@dataclass(frozen=True, slots=True)
class RecordCounts:
    """A number of distinct records, and how many of them are proved to be committed.

    A high watermark proves what lies below it. What lies above every one that was heard may be
    committed too: a follower's high watermark is always behind (R29).
    """

    total: Count
    committed: Count
    unproven: Count
    """Of the others it is not known whether they are committed."""

    def __add__(self, other: RecordCounts) -> RecordCounts:
        """Together with *other*, which shares no record with this."""
        return RecordCounts(
            add(self.total, other.total),
            add(self.committed, other.committed),
            add(self.unproven, other.unproven),
        )


NO_RECORDS = RecordCounts(0, 0, 0)


def unknown_records(why: Unknown) -> RecordCounts:
    """Records that cannot be counted."""
    return RecordCounts(why, why, why)


def add(count: Count, other: Count) -> Count:
    """The sum of two counts, Unknown as soon as one is."""
    if isinstance(count, Unknown):
        return count
    return other if isinstance(other, Unknown) else count + other


def count_distinct(stretches: Sequence[LogStretch], parting: Parting) -> Count:
    """How many distinct records there are in *stretches* together."""
    total = 0
    for place, stretch in enumerate(stretches):
        shared = shared_with(stretch, stretches[:place], parting)
        if isinstance(shared, Unknown):
            return shared
        total += sum(end - start for start, end in without(stretch, shared))
    return total


def without(stretch: LogStretch, shared: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The offsets of *stretch* outside *shared*, both in ascending order."""
    reached = stretch.start
    for start, end in shared:
        if reached < start:
            yield reached, start
        reached = max(reached, end)
    if reached < stretch.end:
        yield reached, stretch.end


def shared_with(
    stretch: LogStretch, counted: Sequence[LogStretch], parting: Parting
) -> list[tuple[int, int]] | Unknown:
    """The offsets of *stretch* whose records are among *counted*, in ascending order."""
    shared: list[tuple[int, int]] = []
    for other in counted:
        start, end = max(stretch.start, other.start), min(stretch.end, other.end)
        if start >= end:
            continue
        parted = parting(stretch.replica, other.replica)
        if isinstance(parted, Unknown):
            return parted
        if start < parted:
            shared.append((start, min(end, parted)))
    shared.sort()
    return shared


def split_at_high_watermarks(stretches: Sequence[LogStretch], parting: Parting) -> RecordCounts:
    """Count *stretches*; a record is proved committed if a holder's high watermark is above it.

    Where a high watermark is Unknown and decides, the split is Unknown and the total is not.
    """
    if not stretches:
        return NO_RECORDS
    if len(stretches) == 1:
        return split_one(stretches[0])
    total = count_distinct(stretches, parting)
    settled = [
        _below(stretch) for stretch in stretches if isinstance(stretch.replica.high_watermark, int)
    ]
    committed = count_distinct(settled, parting)
    if isinstance(total, Unknown) or isinstance(committed, Unknown):
        return RecordCounts(total, committed, committed)
    for stretch in stretches:
        mark = stretch.replica.high_watermark
        if isinstance(mark, Unknown) and count_distinct([*settled, stretch], parting) != committed:
            return RecordCounts(total, mark, mark)
    return RecordCounts(total, committed, total - committed)


def split_one(stretch: LogStretch) -> RecordCounts:
    """Count *stretch* alone."""
    total, mark = stretch.end - stretch.start, stretch.replica.high_watermark
    if isinstance(mark, Unknown):
        return RecordCounts(total, mark, mark)
    committed = max(0, min(stretch.end, mark) - stretch.start)
    return RecordCounts(total, committed, total - committed)


def _below(stretch: LogStretch) -> LogStretch:
    """The part of *stretch* below its replica's high watermark."""
    mark = stretch.replica.high_watermark
    return stretch if isinstance(mark, Unknown) else stretch._replace(end=min(stretch.end, mark))
