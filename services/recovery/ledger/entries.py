"""The values of a ledger: fates of records by offset, their sums, and contradictions of the sums.

Records are counted by offset, each (leader epoch, offset) once even if several replicas have it.
Offsets of transaction markers count, too. Figures of compacted topics are approximate.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, reduce
from operator import add
from pathlib import Path

from breakglass.services.model import ReplicaLog, TopicPartition, Unknown
from breakglass.services.quick_values import quickly_made
from breakglass.services.recovery.ledger.holdings import Holdings

Range = tuple[int, int]
Ranges = Sequence[Range]


_PAST_EVERY_END = 1 << 64


def joined(ranges: Iterable[Range]) -> list[Range]:
    """*ranges* in order, without empty ranges, with adjacent and overlapping ranges merged."""
    found: list[Range] = []
    for start, end in sorted(range_ for range_ in ranges if range_[0] < range_[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def common(some: Ranges, others: Ranges) -> Iterator[Range]:
    """The offsets in both, range by range of *some*."""
    for start, end in some:
        for low, high in others:
            if max(start, low) < min(end, high):
                yield max(start, low), min(end, high)


def outside(some: Iterable[Range], others: Iterable[Range]) -> Iterator[Range]:
    """The offsets of *some* that are in none of *others*."""
    holes = joined(others)
    for start, end in some:
        reached = start
        for low, high in holes:
            if reached < min(low, end):
                yield reached, min(low, end)
            reached = max(reached, high)
        if reached < end:
            yield reached, end


def covers(ranges: Ranges, offset: int) -> bool:
    """Whether one of *ranges*, which are `joined`, has *offset*."""
    at = bisect_right(ranges, (offset, _PAST_EVERY_END)) - 1
    return at >= 0 and offset < ranges[at][1]


class Fate(StrEnum):
    """What happened to a record."""

    __hash__ = str.__hash__

    KEPT = "kept"
    """The log of the leader has it."""
    PUT_BACK = "put back"
    """The election cut it off; it was rescued, and appended to the topic again."""
    RESCUED = "rescued"
    """The election cut it off; the folder of a rescue has it."""
    LOST = "lost"
    WAITING = "waiting"
    """This journal elected no leader: replicas had the record when they were read last."""
    UNKNOWN = "unknown"


class Standing(StrEnum):
    """Whether a record was committed when the election was agreed to."""

    __hash__ = str.__hash__

    COMMITTED = "committed"
    """Proved: a replica with the record had a high watermark above it."""
    UNPROVEN = "unproven"
    """Not known: no high watermark that was heard is above it (R29)."""


@quickly_made
@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The offsets ``[start, end)`` of one replica, which all have the same fate."""

    start: int
    end: int
    fate: Fate
    standing: Standing
    reason: str = ""
    """Where the record is, or why it is lost or unknown; may have untrusted text of brokers."""

    @property
    def offsets(self) -> int:
        return self.end - self.start


@quickly_made
@dataclass(frozen=True, slots=True)
class FateSum:
    """Records of one fate."""

    committed: int = 0
    unproven: int = 0

    @property
    def total(self) -> int:
        return self.committed + self.unproven

    def __add__(self, other: FateSum) -> FateSum:
        return FateSum(self.committed + other.committed, self.unproven + other.unproven)


Sums = Mapping[Fate, FateSum]
"""A fate that is missing has no records."""


def total_of(sums: Sums) -> FateSum:
    """All fates together."""
    return reduce(add, sums.values(), FateSum())


@quickly_made
@dataclass(frozen=True, slots=True)
class ReplicaLedger:
    """One replica's log, as it was when the election was agreed to, by offsets."""

    broker: int
    start: int | Unknown
    end: int | Unknown
    entries: tuple[LedgerEntry, ...] = ()
    """The entries cover ``[start, end)`` if both are known."""

    @property
    def unread(self) -> Unknown | None:
        """Why the replica's records are in no sum; None if they are counted."""
        return next(
            (number for number in (self.end, self.start) if isinstance(number, Unknown)), None
        )


@dataclass(frozen=True, slots=True)
class CopiedSpan:
    """The offsets ``[start, end)`` of one broker's log that have, or may have, a copy."""

    broker: int
    start: int
    end: int
    says: str = ""
    """Where the copy is; for a doubtful copy, why its existence is not known."""


@quickly_made
@dataclass(frozen=True, slots=True)
class PartitionCase:
    """All that is known about the records of one partition."""

    holdings: Holdings
    leader: int | None
    """The leader after the election; None: no leader, or not known."""
    elected: bool | Unknown = True
    """False: no leader was elected. Unknown: not known, with the reason."""
    unsaved: str = "it was not rescued"
    """Why there is no copy of the records that were cut off."""
    rescued: tuple[CopiedSpan, ...] = ()
    put_back: tuple[CopiedSpan, ...] = ()
    doubtful: tuple[CopiedSpan, ...] = ()
    """Copies that a journal names and that were not found as described."""
    now: ReplicaLog | Unknown | None = None
    """The log of the current leader; None: the leader was not asked."""


@quickly_made
@dataclass(frozen=True, slots=True)
class SettledLogs:
    """The fates of the records of one partition."""

    replicas: tuple[ReplicaLedger, ...]
    sums: Sums
    held: int | Unknown
    cut_off: int | None
    """Number of records that the election cut off, with or without a copy; None if not known."""
    uncounted: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    gone: int = 0
    """Number of records that the election kept and the current leader lacks."""
    unconfirmed: str = ""
    """Why the current leader could not confirm the kept records; empty if it did."""
    not_yet_readable: int | Unknown | None = None
    """Number of kept records above the current leader's high watermark; None: not asked."""


@dataclass(frozen=True)
class PartitionLedger:
    """One partition of the incident."""

    partition: TopicPartition
    result: str
    """The result of the election by the journal."""
    leader: int | None
    """The leader, if the journal or the cluster names it."""
    replicas: tuple[ReplicaLedger, ...]
    sums: Sums
    """Sums over readable replicas, each record once."""
    held: int | Unknown
    """All records of readable replicas, counted apart from their fates."""
    uncounted: tuple[str, ...] = ()
    """Why records of readable replicas are in no sum."""
    differences: tuple[str, ...] = ()
    """Where the partition's figures contradict each other; empty if they add up."""
    reason: str = ""
    agreed: str = ""
    """The loss that was agreed to; empty if none was stated."""
    approximate: bool = False
    unread: tuple[int, ...] = ()
    """Brokers whose log could not be read."""
    unread_at_least: int | Unknown = 0
    """At least how many records are only in unread logs; they are in no sum."""
    unread_source: str = ""
    confirmed: bool | Unknown | None = None
    """The current leader has all kept records; None: the leader was not asked."""
    not_yet_readable: int | Unknown | None = None
    """How many kept records consumers do not get to read yet (R30); None: not asked."""

    @property
    def of_note(self) -> bool:
        """Whether anything but KEPT happened, which an incident review looks at."""
        others = any(fate is not Fate.KEPT and found.total for fate, found in self.sums.items())
        waiting = self.not_yet_readable not in (None, 0)
        return bool(others or self.uncounted or self.differences or self.unread or waiting)


@dataclass(frozen=True, slots=True)
class ConsentGiven:
    """One consent of the journal."""

    at_ms: int
    who: str
    phrase: str
    implied: bool = False
    """The consent was given by the command's name and flag, not typed."""


@dataclass(frozen=True, slots=True)
class UnreadLogs:
    """What is known about one broker's unreadable logs."""

    broker: int
    partitions: int
    at_least: int
    """At least how many records, on the partitions with a known bound."""
    unbounded: int
    """Number of partitions without a known bound."""


@dataclass(frozen=True)
class IncidentLedger:
    """The whole incident."""

    cluster_id: str
    journal: Path
    what: str
    """``recovery of 12 partitions``."""
    result: str
    people: tuple[str, ...]
    """Who began the recovery, and who resumed it."""
    opened_at_ms: int
    last_at_ms: int
    made_at_ms: int
    """When this ledger was made."""
    consents: tuple[ConsentGiven, ...]
    digest: str
    approved_by: tuple[str, ...]
    partitions: tuple[PartitionLedger, ...]
    left_out: tuple[tuple[TopicPartition, str], ...] = ()
    """Partitions that were asked for and not elected, with the reason; in no sum."""
    put_back_by: tuple[Path, ...] = ()
    """Journals of restores that put rescued records back."""
    notes: tuple[str, ...] = ()
    """Further remarks for the operator: journals skipped, brokers not asked."""
    asked_cluster: bool = False
    moments: tuple[tuple[int, str], ...] = field(default=(), repr=False)
    """Times and events, as in the timeline."""

    @cached_property
    def sums(self) -> Sums:
        """All partitions together."""
        return added(partition.sums for partition in self.partitions)

    @cached_property
    def held(self) -> int:
        """Number of records of readable replicas, as far as they could be counted."""
        return sum(
            partition.held for partition in self.partitions if isinstance(partition.held, int)
        )

    @cached_property
    def not_yet_readable(self) -> int:
        """Kept records that consumers do not get to read yet, as far as it is known (R30)."""
        found = (partition.not_yet_readable for partition in self.partitions)
        return sum(records for records in found if isinstance(records, int))

    @cached_property
    def uncounted(self) -> int:
        """Number of partitions whose records are in no sum, or whose replicas are not recorded."""
        return sum(bool(partition.uncounted) for partition in self.partitions)

    @cached_property
    def approximate(self) -> bool:
        return any(partition.approximate for partition in self.partitions)

    @cached_property
    def differences(self) -> tuple[str, ...]:
        """Where figures contradict each other, partition by partition."""
        return tuple(
            f"{partition.partition}: {difference}"
            for partition in self.partitions
            for difference in partition.differences
        )

    @property
    def adds_up(self) -> bool:
        """Each record that was counted has its fate, and no figure contradicts another."""
        return not self.differences

    @cached_property
    def unread(self) -> tuple[UnreadLogs, ...]:
        """The unread logs by broker id. A bound of several brokers is repeated for each of them."""
        brokers = sorted({broker for partition in self.partitions for broker in partition.unread})
        return tuple(self._unread(broker) for broker in brokers)

    def _unread(self, broker: int) -> UnreadLogs:
        bounds = [
            partition.unread_at_least for partition in self.partitions if broker in partition.unread
        ]
        known = [bound for bound in bounds if isinstance(bound, int)]
        return UnreadLogs(broker, len(bounds), sum(known), len(bounds) - len(known))


def added(sums: Iterable[Sums]) -> Sums:
    """All of *sums* together, in the order of `Fate`."""
    found: dict[Fate, FateSum] = {}
    for sum_ in sums:
        for fate, part in sum_.items():
            found[fate] = found.get(fate, FateSum()) + part
    return {fate: found[fate] for fate in Fate if fate in found}
