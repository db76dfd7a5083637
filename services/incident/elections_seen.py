"""Elections that were seen to cost records: a log that led with less than others had. Pure.

What replicas reported while a partition was offline is compared with the log of its leader
afterwards. Log matching makes that exact: see `services.recovery.judgement.lineage`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from breakglass.services.model import (
    EpochHistory,
    PartitionEvidence,
    PartitionState,
    ReplicaLog,
    Role,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.judgement.lineage import divergence
from breakglass.services.recovery.judgement.ranking import holds_records, log_rank
from breakglass.services.recovery.remembered.passed_over import ElectionKey



class LogFate(StrEnum):
    """What became of a log with records that the new leader lacks."""

    RUNNING = "running"
    """Its broker runs and has not truncated it yet."""
    DOWN = "down"
    """Its broker does not answer: the log is as it was, as far as known."""
    TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True)
class ReplicaAhead:
    """A replica that had records which the new leader lacks."""

    broker: int
    log_end: int
    """The log end when it was last read before the election."""
    epoch: int | None
    """The last epoch in the log then; None: unknown."""
    kept: LogFate = LogFate.DOWN


@dataclass(frozen=True, slots=True)
class Witnessed:
    """What was read of a partition while it was offline."""

    state: PartitionState
    logs: tuple[ReplicaLog, ...]
    """The longest log that each replica reported; replicas that never answered are missing."""
    approximate: bool
    """Offsets are not records: the topic is, or may be, compacted."""


@dataclass(frozen=True, slots=True)
class ElectionSeen:
    """An election, not agreed to here, that left records out."""

    partition: TopicPartition
    topic_id: str
    leader: int
    leader_epoch: int
    seen_at_ms: int
    """When its leader was first seen: it was elected before that."""
    log_end: int
    """The end of the leader's log when it was elected."""
    empty: bool
    """The log of the new leader was empty."""
    best: int
    """The broker of the best log that was seen."""
    best_end: int
    missing: int | None
    """Records of the best log that the leader lacks; None: unknown."""
    approximate: bool
    holders: tuple[ReplicaAhead, ...]

    @property
    def key(self) -> ElectionKey:
        return self.topic_id, self.partition, self.leader_epoch

    @property
    def open(self) -> tuple[int, ...]:
        """Brokers that are not known to have truncated what the leader lacks."""
        return tuple(
            [holder.broker for holder in self.holders if holder.kept is not LogFate.TRUNCATED]
        )


def witnessed(evidence: PartitionEvidence, before: Sequence[ReplicaLog] = ()) -> Witnessed:
    """The logs in *evidence*, or those that replicas reported *before* where they were longer."""
    best: dict[int, ReplicaLog] = {}
    for log in (*before, *evidence.replicas):
        if isinstance(log.log_end, Unknown):
            continue
        if log.broker not in best or log_rank(log) >= log_rank(best[log.broker]):
            best[log.broker] = log
    approximate = evidence.settings.compacted is not False
    return Witnessed(evidence.state, tuple(best.values()), approximate)


def election_seen(
    before: Witnessed, now: PartitionState, leader: ReplicaLog, seen_at_ms: int
) -> ElectionSeen | None:
    """What the election of *leader* left out; None where it left out nothing that counts.

    Members of ISR and ELR are elected cleanly: what they lack past the high watermark was never
    promised. Not so a last known leader, which may come back with less than it had.
    """
    if now.leader is None or now.topic_id != before.state.topic_id:
        return None
    elected = as_elected(leader, before.state.leader_epoch)
    lacking = [log for log in before.logs if _lacks(elected, log)]
    grave = [log for log in lacking if _grave(before, now.leader, elected, log)]
    if not grave or isinstance(elected.log_end, Unknown):
        return None
    worst = max(grave, key=log_rank)
    return ElectionSeen(
        now.partition,
        str(now.topic_id),
        now.leader,
        now.leader_epoch,
        seen_at_ms,
        elected.log_end,
        not holds_records(elected),
        worst.broker,
        _end(worst),
        _missing(elected, worst),
        before.approximate,
        tuple(
            [
                _holder(holder)
                for holder in sorted(lacking, key=lambda log: log.broker)
                if holder.broker != now.leader
            ]
        ),
    )


def as_elected(leader: ReplicaLog, offline_epoch: int) -> ReplicaLog:
    """The log of *leader* as it was when elected, without what it wrote as a leader since."""
    history = leader.epochs
    if isinstance(history, Unknown) or isinstance(leader.log_end, Unknown):
        return leader
    older = tuple([range_ for range_ in history.ranges if range_.epoch <= offline_epoch])
    since = [range_.start for range_ in history.ranges if range_.epoch > offline_epoch]
    end = min(since, default=leader.log_end)
    return replace(leader, log_end=end, epochs=EpochHistory(older, history.complete_from))


def followed(seen: ElectionSeen, logs: Mapping[int, ReplicaLog | None]) -> ElectionSeen:
    """*seen* with the state of its holders, whose *logs* were read again; None: no answer."""
    holders = tuple(
        [
            replace(holder, kept=_kept(holder, logs[holder.broker]))
            if holder.broker in logs
            else holder
            for holder in seen.holders
        ]
    )
    return seen if holders == seen.holders else replace(seen, holders=holders)


def _kept(holder: ReplicaAhead, log: ReplicaLog | None) -> LogFate:
    """Truncated records do not come back."""
    if holder.kept is LogFate.TRUNCATED:
        return LogFate.TRUNCATED
    if log is None or isinstance(log.log_end, Unknown):
        return LogFate.DOWN
    return LogFate.RUNNING if _still_whole(holder, log) else LogFate.TRUNCATED


def _still_whole(holder: ReplicaAhead, log: ReplicaLog) -> bool:
    """Whether the last written epoch still reaches as far as before, whatever came after."""
    if holder.epoch is None or isinstance(log.epochs, Unknown):
        return isinstance(log.log_end, int) and log.log_end >= holder.log_end
    return any(
        range_.epoch == holder.epoch and range_.end >= holder.log_end
        for range_ in log.epochs.ranges
    )


def _holder(log: ReplicaLog) -> ReplicaAhead:
    epoch = log.last_written_epoch
    return ReplicaAhead(log.broker, _end(log), epoch if isinstance(epoch, int) else None)


def _lacks(elected: ReplicaLog, other: ReplicaLog) -> bool:
    """Whether *elected* is without records of *other*."""
    missing = _missing(elected, other)
    if missing is None:
        return log_rank(elected) < log_rank(other) or _end(elected) < _end(other)
    return missing > 0


def _missing(elected: ReplicaLog, other: ReplicaLog) -> int | None:
    """How many records of *other* the log of *elected* is without; None: unknown."""
    if not holds_records(other):
        return 0
    parting = divergence(other, elected)
    if isinstance(parting, Unknown):
        return None
    starts = [start for start in (other.log_start, elected.log_start) if isinstance(start, int)]
    if not holds_records(elected):
        starts = starts[:1]
    return max(0, _end(other) - max(parting, *starts, 0))


def _grave(before: Witnessed, leader: int, elected: ReplicaLog, other: ReplicaLog) -> bool:
    """Whether what *elected* lacks of *other* counts: it is the best log's, or committed."""
    parting, mark = divergence(other, elected), other.high_watermark
    committed = mark > parting if isinstance(parting, int) and isinstance(mark, int) else None
    clean = before.state.role(leader) in (Role.ISR, Role.ELR)
    if clean and committed is False and holds_records(elected):
        return False
    return bool(committed) or log_rank(other) == max(map(log_rank, before.logs))


def _end(log: ReplicaLog) -> int:
    return log.log_end if isinstance(log.log_end, int) else 0
