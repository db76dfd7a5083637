"""Where two replicas of a partition stop being the same log, and what brokers do about it.

Everything here rests on one property, log matching: a leader epoch has one leader, a leader
gives each offset to one record only, and a follower appends a leader's records only where its
log agrees with the leader's up to there. So two replicas that hold the same epoch at the same
offset hold the same records at every lower offset that both still have. The offsets on which
two replicas agree are therefore a prefix of what they share, and it ends where the highest
epoch that both of them wrote ends first: no record has to be compared.

Sources: KIP-101 (truncation by epoch), KIP-279 (more than one step), KIP-595 (DivergingEpoch in
Fetch); LeaderEpochFileCache.endOffsetFor, Partition.fetchRecords and
AbstractFetcherThread.getOffsetTruncationState, fetchOffsetAndTruncate of Kafka 4.3.1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from breakglass.services.model import EpochHistory, EpochRange, ReplicaLog, Unknown

_NEW_EPOCH = sys.maxsize


def divergence(one: ReplicaLog, other: ReplicaLog) -> int | Unknown:
    """The first offset at which *one* and *other* stop being the same log.

    A log that is a prefix of the other diverges at its own end. Where the divergence is below
    one log's start, it is known only if they share an epoch; otherwise it is given as the first
    offset that both hold, below which nothing of both is left. A log without records diverges
    at its end, as brokers have it. Symmetric.

    Unknown when an end or a history could not be read, when the histories do not reach back
    to a common epoch, or when the logs share neither offsets nor an order of epochs.
    """
    if isinstance(one.epochs, Unknown):
        return one.epochs
    if isinstance(other.epochs, Unknown):
        return other.epochs
    common = _common_epoch_end(one.epochs, other.epochs)
    if common is not None:
        return common
    return _without_common_epoch(one, one.epochs, other, other.epochs)


def _common_epoch_end(ours: EpochHistory, theirs: EpochHistory) -> int | None:
    """Where the highest epoch that both wrote ends first; None without a known common one."""
    i, j = len(ours.ranges) - 1, len(theirs.ranges) - 1
    while i >= 0 and j >= 0:
        left, right = ours.ranges[i], theirs.ranges[j]
        if left.epoch == right.epoch:
            return min(left.end, right.end)
        if left.epoch > right.epoch:
            i -= 1
        else:
            j -= 1
    return None


def _without_common_epoch(
    one: ReplicaLog, ours: EpochHistory, other: ReplicaLog, theirs: EpochHistory
) -> int | Unknown:
    if isinstance(one.log_end, Unknown):
        return one.log_end
    if isinstance(other.log_end, Unknown):
        return other.log_end
    gap = history_gap(one, ours) or history_gap(other, theirs)
    if gap:
        return gap
    if not ours.ranges or not theirs.ranges:
        return min(one.log_end, other.log_end)
    return _between_strangers(one, ours, other, theirs)


def _between_strangers(
    one: ReplicaLog, ours: EpochHistory, other: ReplicaLog, theirs: EpochHistory
) -> int | Unknown:
    first, second = sorted((ours.ranges, theirs.ranges), key=lambda ranges: ranges[-1].end)
    starts = [log.log_start for log in (one, other) if isinstance(log.log_start, int)]
    shared_start = max(first[0].start, second[0].start, *starts)
    if shared_start < first[-1].end:
        return shared_start
    if first[-1].epoch < second[0].epoch:
        return first[-1].end
    return Unknown(f"b{one.broker} and b{other.broker} have no offset in common")


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
    that shares an epoch with each of them can tell: without one, its divergence is where its own
    log begins or ends, and the two may have parted before.
    """

    def __init__(self, replicas: Iterable[ReplicaLog]) -> None:
        self._replicas = tuple(replicas)
        self._found: dict[tuple[int, int], int | Unknown] = {}

    def between(self, one: ReplicaLog, other: ReplicaLog) -> int | Unknown:
        """`divergence` of *one* and *other*, with the help of the other replicas."""
        found = self._direct(one, other)
        if isinstance(found, Unknown):
            found = self._through_a_third(one, other, found)
            self._found[_pair(one, other)] = found
        return found

    def _direct(self, one: ReplicaLog, other: ReplicaLog) -> int | Unknown:
        pair = _pair(one, other)
        found = self._found.get(pair)
        if found is None:
            found = self._found[pair] = divergence(one, other)
        return found

    def _through_a_third(
        self, one: ReplicaLog, other: ReplicaLog, unsettled: Unknown
    ) -> int | Unknown:
        for third in self._replicas:
            if third.broker not in (one.broker, other.broker):
                left, right = _exact(one, third), _exact(third, other)
                if left is not None and right is not None and left != right:
                    return min(left, right)
        return unsettled


def _exact(one: ReplicaLog, other: ReplicaLog) -> int | None:
    """Their divergence where a common epoch tells it, whatever either log has deleted."""
    if isinstance(one.epochs, Unknown) or isinstance(other.epochs, Unknown):
        return None
    return _common_epoch_end(one.epochs, other.epochs)


def _pair(one: ReplicaLog, other: ReplicaLog) -> tuple[int, int]:
    return min(one.broker, other.broker), max(one.broker, other.broker)


@dataclass(frozen=True, slots=True)
class Truncation:
    """What a follower does to its log when a leader of another lineage takes over."""

    offset: int
    """The follower's log end once it has truncated."""
    whole_log: bool = False
    """It dropped everything: its log ended before the leader's begins."""


def truncation(follower: ReplicaLog, leader: ReplicaLog) -> Truncation | Unknown:
    """What *follower* truncates to when *leader* is elected, step by step as brokers do it.

    The follower names the last epoch it wrote; the leader answers with its own largest epoch
    not above it and where that one ended; the follower cuts there, and asks again while its
    own epochs do not include the one answered. A follower that ends before the leader's log
    starts is out of range and starts anew.
    """
    mine, theirs = _epoch_log(follower), _epoch_log(leader)
    if isinstance(mine, Unknown):
        return mine
    if isinstance(theirs, Unknown):
        return theirs
    led = _EpochLog(theirs.start, theirs.end, (*theirs.epochs, (_NEW_EPOCH, theirs.end)))
    while True:
        if mine.end < led.start:
            return Truncation(led.start, whole_log=True)
        cut = _next_cut(mine, led)
        if cut is None:
            return Truncation(mine.end)
        mine = mine.cut(cut)


@dataclass(frozen=True, slots=True)
class _EpochLog:
    """A log as its leader epoch cache describes it: (epoch, first offset), oldest first."""

    start: int
    end: int
    epochs: tuple[tuple[int, int], ...]

    def cut(self, offset: int) -> _EpochLog:
        kept = tuple(entry for entry in self.epochs if entry[1] < offset)
        return _EpochLog(self.start, offset, kept)

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """(largest epoch not above *epoch*, where it ends): LeaderEpochFileCache.endOffsetFor."""
        floor, end = None, self.end
        for held, start in self.epochs:
            if held > epoch:
                end = start
                break
            floor = held
        return (epoch if floor is None else floor), end


def _next_cut(mine: _EpochLog, led: _EpochLog) -> int | None:
    """Where the follower cuts next; None once its log is a prefix of the leader's."""
    if not mine.epochs:
        return led.end if mine.end > led.end else None
    last_written = mine.epochs[-1][0]
    epoch, end = led.end_offset_for(last_written)
    if epoch == last_written and end >= mine.end:
        return None
    own_epoch, own_end = mine.end_offset_for(epoch)
    return own_end if own_epoch != epoch else min(own_end, end)


def _epoch_log(log: ReplicaLog) -> _EpochLog | Unknown:
    if isinstance(log.log_start, Unknown):
        return log.log_start
    if isinstance(log.log_end, Unknown):
        return log.log_end
    if isinstance(log.epochs, Unknown):
        return log.epochs
    return history_gap(log, log.epochs) or _EpochLog(
        log.log_start, log.log_end, tuple(_entry(held) for held in log.epochs.ranges)
    )


def _entry(held: EpochRange) -> tuple[int, int]:
    return held.epoch, held.start
