"""Decides which transactions are in a checkpoint, and lowers the cut of each log accordingly.

A transaction is in the checkpoint as a whole or not at all: its records in every log, and the
offsets that it commits. Everything here is a pure function of what logs contain; all offsets are
exclusive ends.

Logs that several producers write have transactions that overlap: a cut that is a prefix of such a
log would tear another transaction wherever it lies, and there would be no end to lowering it. So a
log is cut before the first record of a transaction that is left out, and the records after the cut
that belong to the checkpoint's transactions are restored after it, as records in transit are.

Names the transactions that logs contain, so that their parts in several logs can be joined.

Within one log, a producer's batches belong to the transaction that its next marker ends. Across
logs there are two ways (KIP-890):

- Version 2, of Java clients from 4.0 on: each transaction has an epoch of its own. Its markers have
  the next epoch, so that producer id and epoch name it everywhere.
- Version 1, of librdkafka and older Java clients: the epoch stays. A producer's transactions follow
  each other, and the coordinator records the partitions of each. Its log is read before and after
  the ends of the partitions' logs; where it records no decision in between, the last transaction
  that it records is also the last one that the partitions' logs have markers of. From there the
  transactions are counted.

A control batch that is compacted away, or a producer that the coordinator's log says nothing about,
leaves transactions that cannot be distinguished: they are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeVar

from breakglass.services.checkpoint.protocol.lineage import Offsets
from breakglass.services.errors import Refused
from breakglass.services.model import TopicPartition

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
    commits: tuple[OffsetCommit, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionCut:
    """The greatest consistent content of a checkpoint within the given ends."""

    positions: dict[int, int]
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
    # The offsets after the last commit of each group and partition.
    found = {group: dict(offsets) for group, offsets in before.items()}
    commits = [commit for transaction in inside for commit in transaction.commits]
    for commit in sorted(commits, key=lambda each: (each.log, each.position)):
        offsets = found.setdefault(commit.group, {})
        if commit.offset is None:
            offsets.pop(commit.partition, None)
        else:
            offsets[commit.partition] = commit.offset
    return TransactionCut(
        positions,
        found,
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


LAST_EPOCH = 2**15 - 1


class BatchKind(IntEnum):
    """What a batch is to transactions."""

    PLAIN = 0
    """Records outside any transaction."""
    DATA = 1
    """Records of a transaction."""
    COMMIT = 2
    ABORT = 3
    OTHER = 4
    """A control batch that is no marker of a transaction."""


class BatchRow(NamedTuple):
    """The header of one batch, as far as transactions need it."""

    first: int
    last: int
    producer_id: int
    epoch: int
    kind: int
    """A `BatchKind`."""
    records: int
    """Number of records; fewer than its offsets if compaction removed some."""


@dataclass(frozen=True, slots=True)
class ProducerRun:
    """One producer's batches in one log, from one marker to the next."""

    log: TopicPartition
    producer_id: int
    epoch: int
    """Of the data; of the marker if there is no data."""
    stretches: tuple[Stretch, ...]
    marker: int | None
    """None: no marker follows in what was read."""
    marker_epoch: int
    commit: bool

    @property
    def own_epoch(self) -> bool:
        """Whether its transaction has an epoch of its own (version 2)."""
        return self.marker_epoch == self.epoch + 1


def runs_of(
    log: TopicPartition, rows: Iterable[BatchRow]
) -> tuple[tuple[ProducerRun, ...], tuple[Stretch, ...]]:
    """The runs in *rows* by their ends, and the records outside any transaction.

    Raises Refused: a producer changes its epoch within a transaction.
    """
    begun: dict[int, tuple[int, list[Stretch]]] = {}
    runs, plain = [], []
    for row in rows:
        if row.kind == BatchKind.PLAIN:
            plain.append((row.first, row.last))
        elif row.kind == BatchKind.DATA:
            epoch, stretches = begun.setdefault(row.producer_id, (row.epoch, []))
            if epoch != row.epoch:
                raise Refused(_not_told_apart(log, row.producer_id, "its epoch changes within one"))
            stretches.append((row.first, row.last))
        elif row.kind in (BatchKind.COMMIT, BatchKind.ABORT):
            epoch, stretches = begun.pop(row.producer_id, (row.epoch, []))
            runs.append(
                ProducerRun(
                    log,
                    row.producer_id,
                    epoch,
                    tuple(stretches),
                    row.first,
                    row.epoch,
                    row.kind == BatchKind.COMMIT,
                )
            )
    for producer_id, (epoch, stretches) in begun.items():
        runs.append(ProducerRun(log, producer_id, epoch, tuple(stretches), None, -1, commit=False))
    return tuple(runs), tuple(plain)


def require_uncompacted_rows(log: TopicPartition, rows: Iterable[BatchRow], start: int) -> None:
    """Return if *rows* lack no offset from *start* on, and no batch lacks a record.

    Raises Refused: compaction has removed records or markers.
    """
    at = start
    for row in rows:
        if row.first > at or row.records != row.last - row.first + 1:
            raise Refused(
                f"unverifiable: compaction has removed what {log} had from offset {at} on, and "
                "with it markers or commits of transactions: take a checkpoint with a new id, with "
                "--hold-retention where the topic is yours"
            )
        at = row.last + 1


@dataclass(frozen=True, slots=True)
class DecidedTransaction:
    """A transaction that a coordinator has recorded as to be committed or aborted."""

    logs: frozenset[TopicPartition]
    commit: bool


@dataclass(frozen=True, slots=True)
class ProducerHistory:
    """What a coordinator's log records of one producer, from some moment on."""

    decided: tuple[DecidedTransaction, ...]
    anchored: int
    """When `ends` were read, so many of them, the first ones, had all their markers, and the others
    had none."""
    ends: Mapping[TopicPartition, int]


def by_order(runs: Iterable[ProducerRun]) -> frozenset[int]:
    """The producers whose transactions are distinguished by their order alone (version 1)."""
    return frozenset(
        run.producer_id for run in runs if run.commit and run.stretches and not run.own_epoch
    )


def named(
    runs: Sequence[ProducerRun], histories: Mapping[int, ProducerHistory]
) -> Iterator[tuple[TransactionName, ProducerRun]]:
    """The runs with the names of their transactions; *runs* are ordered within each log.

    Aborted runs, and runs that were decided before *histories* begin, are left out: the latter were
    complete before a checkpoint was begun.

    Raises Refused: transactions cannot be distinguished.
    """
    ordered = by_order(runs)
    counted: dict[tuple[int, TopicPartition], list[ProducerRun]] = {}
    for run in runs:
        if run.producer_id in ordered:
            counted.setdefault((run.producer_id, run.log), []).append(run)
        elif run.marker is None or (run.commit and run.stretches):
            if run.marker is not None and run.marker_epoch > LAST_EPOCH:
                raise Refused(_not_told_apart(run.log, run.producer_id, "its epoch is impossible"))
            yield TransactionName(run.producer_id, run.epoch), run
    for (producer_id, log), some in counted.items():
        history = histories.get(producer_id)
        if history is None:
            raise Refused(_not_told_apart(log, producer_id, "its coordinator has no record of it"))
        yield from _counted(some, log, history)


def _counted(
    runs: Sequence[ProducerRun], log: TopicPartition, history: ProducerHistory
) -> Iterator[tuple[TransactionName, ProducerRun]]:
    """One producer's runs in one log, named by their order."""
    empty = next((run for run in runs if not run.stretches), None)
    if empty is not None:
        # A coordinator that fails over writes a marker twice, which must not be counted twice.
        raise Refused(_not_told_apart(log, empty.producer_id, "a marker has no records before it"))
    listed = [number for number, each in enumerate(history.decided) if log in each.logs]
    old = [number for number in listed if number < history.anchored]
    new = [number for number in listed if number >= history.anchored]
    end = history.ends.get(log, 0)
    before = [run for run in runs if run.marker is not None and run.marker < end]
    after = [run for run in runs if run.marker is None or run.marker >= end]
    # The newest first: what was decided before the history begins has no entry.
    pairs = list(zip(reversed(before), reversed(old), strict=False))
    pairs += zip(after, new, strict=False)
    for run in after[len(new) :]:
        if run.marker is not None:
            raise Refused(
                _not_told_apart(log, run.producer_id, "its coordinator has no record of one")
            )
        yield TransactionName(run.producer_id, LAST_EPOCH, run.stretches[0][0]), run
    for run, number in pairs:
        if run.marker is not None and run.commit is not history.decided[number].commit:
            raise Refused(
                _not_told_apart(log, run.producer_id, "its markers are not those recorded")
            )
        if history.decided[number].commit:
            yield TransactionName(run.producer_id, run.epoch, number), run


def _not_told_apart(log: TopicPartition, producer_id: int, why: str) -> str:
    return (
        f"unverifiable: transactions of producer {producer_id} in {log} cannot be distinguished "
        f"({why}): take a checkpoint with a new id"
    )
