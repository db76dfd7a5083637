"""Names the transactions that logs contain, so that their parts in several logs can be joined.

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
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from breakglass.services.checkpoint.protocol.transactions import (
    Stretch,
    TransactionName,
)
from breakglass.services.errors import Refused
from breakglass.services.model import TopicPartition

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
    """Whether the marker commits; False without a marker."""

    @property
    def own_epoch(self) -> bool:
        """Whether its transaction has an epoch of its own (version 2)."""
        return self.marker_epoch == self.epoch + 1


def runs_of(
    log: TopicPartition, rows: Iterable[BatchRow]
) -> tuple[tuple[ProducerRun, ...], tuple[Stretch, ...]]:
    """The runs in *rows* by their ends, and the records outside any transaction.

    Raises:
        Refused: a producer changes its epoch within a transaction.
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

    Raises:
        Refused: compaction has removed records or markers.
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
    """The partitions that get its marker."""
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

    Raises:
        Refused: transactions cannot be distinguished.
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
