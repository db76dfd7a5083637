"""Decides which transactions are in a checkpoint, and lowers the cut of each log accordingly.

A transaction is in the checkpoint as a whole or not at all: its records in every log, and the
offsets that it commits. Everything here is a pure function of what logs contain; all offsets are
exclusive ends.

Logs that several producers write have transactions that overlap: a cut that is a prefix of such a
log would tear another transaction wherever it lies, and there would be no end to lowering it. So a
log is cut before the first record of a transaction that is left out, and the records after the cut
that belong to the checkpoint's transactions are restored after it, as records in transit are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from breakglass.services.checkpoint.protocol.lineage import Offsets

NO_PRODUCER = -1
ENDINGS = 2
"""How often open transactions have to end before a checkpoint's ends are read: once to be decided,
once more to have their markers everywhere."""
K = TypeVar("K")
Stretch = tuple[int, int]
"""The first and the last offset of consecutive records."""


class TransactionName(NamedTuple):
    """Identifies a transaction in all logs; names of one producer sort as its transactions ran."""

    producer_id: int
    """`NO_PRODUCER`: no transaction, but a commit of offsets on its own."""
    epoch: int
    number: int = 0
    """Distinguishes transactions of a producer whose epoch stays the same (version 1)."""


V = TypeVar("V", int, TransactionName)


@dataclass(frozen=True, slots=True)
class TransactionPart:
    """A transaction's records in one log."""

    stretches: tuple[Stretch, ...]
    """Offsets of the records in order, at least one stretch."""
    marker: int | None
    """The offset of the commit marker; None: it is after everything that was read."""

    @property
    def first(self) -> int:
        """The offset of the first record."""
        return self.stretches[0][0]


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """An offset that a transaction, or a group by itself, has committed."""

    log: int
    """The partition of ``__consumer_offsets``; one for all commits of a group."""
    position: int
    """The offset of the commit in that partition."""
    group: str
    partition: int
    """The number of the partition whose input was processed."""
    offset: int | None
    """Where the group continues; None: its offset was deleted."""


@dataclass(frozen=True, slots=True)
class LoggedTransaction:
    """A committed transaction, as all logs together show it."""

    name: TransactionName
    parts: Mapping[int, TransactionPart] = field(default_factory=dict)
    """By the number of the partition."""
    commits: tuple[OffsetCommit, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionCut:
    """The greatest consistent content of a checkpoint within the given ends."""

    positions: dict[int, int]
    """The cut of each log."""
    offsets: dict[str, dict[int, int]]
    """Where each group continues."""
    in_transit: dict[int, tuple[int, ...]]
    """By partition: offsets after the cut of records that are in the checkpoint."""
    left_out: frozenset[TransactionName]
    """The transactions that are not in the checkpoint, although records of them are before the
    ends; and the commits of groups past the cut."""


def transaction_cut(
    ends: Offsets,
    before: Mapping[str, Offsets],
    transactions: Sequence[LoggedTransaction],
    plain: Mapping[int, Iterable[Stretch]],
) -> TransactionCut:
    """Lower *ends* until every transaction is in the cut as a whole or not at all.

    Args:
        ends: the ends as they were read, by the number of the partition.
        before: the offsets of each group before the first of the commits in *transactions*.
        transactions: every transaction that may have to be left out.
        plain: records that belong to no transaction, and have no cause in the checkpoint.
    """
    out = left_out(ends, transactions)
    inside = [each for each in transactions if each.name not in out]
    positions = dict(ends)
    for transaction in transactions:
        if transaction.name in out:
            for number, part in transaction.parts.items():
                positions[number] = min(positions[number], part.first)
    kept: dict[int, list[Stretch]] = {number: list(some) for number, some in plain.items()}
    for transaction in inside:
        for number, part in transaction.parts.items():
            kept.setdefault(number, []).extend(part.stretches)
    in_transit = {
        number: tuple(_between(sorted(kept.get(number, ())), positions[number], end))
        for number, end in sorted(ends.items())
    }
    return TransactionCut(
        positions,
        _committed(before, inside),
        {number: offsets for number, offsets in in_transit.items() if offsets},
        frozenset(each.name for each in transactions if each.name in out and _begun(each, ends)),
    )


def left_out(
    ends: Offsets, transactions: Iterable[LoggedTransaction]
) -> frozenset[TransactionName]:
    """The fewest transactions without which the rest is consistent within *ends*.

    Left out is what is not complete at the ends. What depends on it is left out too, because the
    application would not have come to it: a transaction that has processed a record of it, that
    commits offsets of the same group and partition after it, that the same producer ran after it,
    or that began in one of its logs after it had ended there.
    """
    bounds = _Bounds(ends)
    found: set[TransactionName] = set()
    waiting = list(transactions)
    while True:
        remaining = []
        for transaction in waiting:
            if bounds.exclude(transaction):
                bounds.lower(transaction)
                found.add(transaction.name)
            else:
                remaining.append(transaction)
        if len(remaining) == len(waiting):
            return frozenset(found)
        waiting = remaining


class _Bounds:
    """What the transactions that are left out so far allow."""

    def __init__(self, ends: Offsets) -> None:
        self._ends = ends
        self._read = dict(ends)
        """The first record of each log that nothing in the checkpoint may have processed."""
        self._ended: dict[int, int] = {}
        """The first marker in each log of what is left out."""
        self._commits: dict[tuple[str, int], int] = {}
        self._producers: dict[int, TransactionName] = {}

    def exclude(self, transaction: LoggedTransaction) -> bool:
        """Whether *transaction* has to be left out."""
        name = transaction.name
        earlier = self._producers.get(name.producer_id)
        return (
            (earlier is not None and earlier < name)
            or any(self._torn(number, part) for number, part in transaction.parts.items())
            or any(self._past(commit) for commit in transaction.commits)
        )

    def _torn(self, number: int, part: TransactionPart) -> bool:
        if part.marker is None or part.marker >= self._ends[number]:
            return True
        ended = self._ended.get(number)
        return ended is not None and ended < part.first

    def _past(self, commit: OffsetCommit) -> bool:
        if commit.offset is not None and commit.offset > self._read[commit.partition]:
            return True
        earlier = self._commits.get((commit.group, commit.partition))
        return earlier is not None and earlier < commit.position

    def lower(self, transaction: LoggedTransaction) -> None:
        """Leave *transaction* out."""
        name = transaction.name
        if name.producer_id != NO_PRODUCER:
            _lower(self._producers, name.producer_id, name)
        for number, part in transaction.parts.items():
            _lower(self._read, number, part.first)
            if part.marker is not None:
                _lower(self._ended, number, part.marker)
        for commit in transaction.commits:
            _lower(self._commits, (commit.group, commit.partition), commit.position)


def _lower(found: dict[K, V], key: K, value: V) -> None:
    found[key] = min(found.get(key, value), value)


def _begun(transaction: LoggedTransaction, ends: Offsets) -> bool:
    """Whether a record of *transaction* is before the ends, or it only commits offsets."""
    parts = transaction.parts.items()
    return not transaction.parts or any(part.first < ends[number] for number, part in parts)


def _between(stretches: Iterable[Stretch], start: int, end: int) -> Iterable[int]:
    for first, last in stretches:
        yield from range(max(first, start), min(last + 1, end))


def _committed(
    before: Mapping[str, Offsets], inside: Iterable[LoggedTransaction]
) -> dict[str, dict[int, int]]:
    """The offsets after the last commit of each group and partition."""
    found = {group: dict(offsets) for group, offsets in before.items()}
    commits = [commit for transaction in inside for commit in transaction.commits]
    for commit in sorted(commits, key=lambda each: (each.log, each.position)):
        offsets = found.setdefault(commit.group, {})
        if commit.offset is None:
            offsets.pop(commit.partition, None)
        else:
            offsets[commit.partition] = commit.offset
    return found
