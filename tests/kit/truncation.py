"""What followers truncate to, step by step as brokers compute it: another way to a divergence.

Sources: KIP-101, KIP-279, KIP-595; LeaderEpochFileCache.endOffsetFor and
AbstractFetcherThread.getOffsetTruncationState of Kafka 4.3.1.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from breakglass.services.model import EpochRange, ReplicaLog, Unknown
from breakglass.services.recovery.judgement.lineage import history_gap

_NEW_EPOCH = sys.maxsize


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
