"""Decides a transactional checkpoint: reads the transactions around its ends, and lowers them.

The order of reading makes the result sound. First the stable ends of all logs are read, which are
the floors, then the offsets of the groups. Then transactions end twice: those that were open when
the high watermarks were read. Only then the checkpoint's ends are read (`transaction_floors`). So
every transaction with a record before these watermarks is complete at the ends, and what has to be
left out was committed after the floors were read: all its records, markers and commits are after
them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.log_ends import Ends, settled
from breakglass.services.checkpoint.kafka.producer_histories import (
    STATE_TOPIC,
    HistoryReader,
)
from breakglass.services.checkpoint.kafka.transaction_logs import (
    CommitRow,
    LoggedBatches,
    ReadContents,
)
from breakglass.services.checkpoint.protocol.transaction_names import (
    ProducerHistory,
    ProducerRun,
    by_order,
    named,
    require_uncompacted_rows,
    runs_of,
)
from breakglass.services.checkpoint.protocol.transactions import (
    NO_PRODUCER,
    LoggedTransaction,
    OffsetCommit,
    Stretch,
    TransactionName,
    TransactionPart,
)
from breakglass.services.checkpoint.store.documents import TakeDocument
from breakglass.services.errors import Refused, TimedOut
from breakglass.services.kafka.offsets_topic import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition


@dataclass(frozen=True, slots=True)
class TransactionsRead:
    """The transactions after the floors, and the records outside any transaction."""

    transactions: tuple[LoggedTransaction, ...]
    plain: Mapping[int, tuple[Stretch, ...]]
    """By the number of the partition."""


@dataclass(frozen=True, slots=True)
class TransactionReader:
    """Reads the transactions of one checkpoint."""

    client: ReadClient
    take: TakeDocument
    numbers: Mapping[TopicPartition, int]
    floors: Ends
    ends: Ends
    read: ReadContents
    wait: Callable[[float], None]

    def transactions(self, deadline: Deadline) -> TransactionsRead:
        """Every transaction that may have to be left out at the ends.

        Raises:
            Refused: transactions cannot be distinguished, a record has an unknown cause, or a group
                reads a topic that is not in the checkpoint.
            TimedOut: a transaction stays open.
            ClusterError, Unreachable, PipelineError: logs cannot be read.
        """
        contents = LoggedBatches()
        starts = {**self.floors, **self._internal(OFFSETS_TOPIC)}
        ends = self._continue(contents, starts, deadline)
        runs, plain = self._runs(contents)
        producers = by_order(runs)
        histories: dict[int, ProducerHistory] = {}
        if producers:
            reader = HistoryReader(self.client, self._internal(STATE_TOPIC), producers, self.wait)
            reader.anchor(self._topics, deadline)
            # Up to what the producers are anchored to.
            self._continue(contents, ends, deadline)
            runs, plain = self._runs(contents)
            histories = reader.histories()
            late = by_order(runs) - histories.keys()
            if late:
                raise TimedOut(
                    f"producer {min(late)} began while transactions were read: try again",
                    "a producer began",
                )
        return TransactionsRead(
            tuple(self._joined(contents, tuple(named(runs, histories)))),
            {self.numbers[log]: stretches for log, stretches in plain.items()},
        )

    @property
    def _topics(self) -> list[str]:
        topics = {partition.topic for partition in self.numbers}
        return sorted({*topics, *([OFFSETS_TOPIC] if self.take.writing else [])})

    def _internal(self, topic: str) -> Ends:
        floors = self.take.transactions
        assert floors is not None
        return {
            TopicPartition(topic, number): end for number, end in floors.logs.get(topic, {}).items()
        }

    def _continue(self, contents: LoggedBatches, starts: Ends, deadline: Deadline) -> Ends:
        """Add to *contents* what follows *starts*, once no transaction before the ends is open.

        Returns the ends of what was read.
        """
        logs, _ = settled(self.client, self._topics, deadline)
        stable = logs.stable_ends(Deadline.after(patience.COMMAND))
        ends = {log: max(start, stable[log]) for log, start in starts.items()}
        found = self.read(logs, starts, ends, tuple(self.take.writing))
        for log, rows in found.batches.items():
            require_uncompacted_rows(log, rows, starts[log])
            contents.batches.setdefault(log, []).extend(rows)
        for log, commits in found.commits.items():
            contents.commits.setdefault(log, []).extend(commits)
        return ends

    def _runs(
        self, contents: LoggedBatches
    ) -> tuple[list[ProducerRun], dict[TopicPartition, tuple[Stretch, ...]]]:
        """The runs of every producer, and the records of topics outside any transaction."""
        runs: list[ProducerRun] = []
        plain = {}
        for log, rows in contents.batches.items():
            own, outside = runs_of(log, rows)
            runs += own
            if log.topic != OFFSETS_TOPIC:
                plain[log] = self._from_outside(log, outside)
        return runs, plain

    def _from_outside(self, log: TopicPartition, some: tuple[Stretch, ...]) -> tuple[Stretch, ...]:
        within = tuple(each for each in some if each[0] < self.ends[log])
        if within and log.topic not in self.take.external:
            raise Refused(
                f"unverifiable: the record at offset {within[0][0]} of {log} was written outside "
                "any transaction, so nothing says what led to it: declare the topic with "
                "--external where it is written from outside alone, or take its writer's topics "
                "at another level"
            )
        return within

    def _joined(
        self, contents: LoggedBatches, runs: Sequence[tuple[TransactionName, ProducerRun]]
    ) -> Iterator[LoggedTransaction]:
        parts: dict[TransactionName, dict[int, TransactionPart]] = {}
        writers: dict[TopicPartition, list[tuple[int, int, TransactionName]]] = {}
        for name, run in runs:
            if run.log.topic == OFFSETS_TOPIC:
                writers.setdefault(run.log, []).extend((*each, name) for each in run.stretches)
                parts.setdefault(name, {})
            else:
                part = TransactionPart(run.stretches, run.marker)
                parts.setdefault(name, {})[self.numbers[run.log]] = part
        commits: dict[TransactionName, list[OffsetCommit]] = {}
        for log, rows in contents.commits.items():
            written = sorted(writers.get(log, ()))
            for row in rows:
                name = _writer(written, row) or TransactionName(
                    NO_PRODUCER, log.partition, row.position
                )
                commits.setdefault(name, []).append(self._commit(log, row))
        for name in sorted({*parts, *commits}):
            own = tuple(commits.get(name, ()))
            if own or parts.get(name):
                yield LoggedTransaction(name, parts.get(name, {}), own)

    def _commit(self, log: TopicPartition, row: CommitRow) -> OffsetCommit:
        read = TopicPartition(row.topic, row.partition)
        number = self.numbers.get(read)
        if number is None:
            raise Refused(
                f"unverifiable: group {row.group} also reads {read.topic}, which is not in the "
                "checkpoint: add it to --topics"
            )
        return OffsetCommit(log.partition, row.position, row.group, number, row.offset)


def _writer(
    written: Sequence[tuple[int, int, TransactionName]], row: CommitRow
) -> TransactionName | None:
    """The transaction that has written *row*; None: the group has committed by itself."""
    at = bisect_right(written, row.position, key=lambda each: each[0]) - 1
    if at < 0:
        return None
    _, last, name = written[at]
    return name if row.position <= last else None
