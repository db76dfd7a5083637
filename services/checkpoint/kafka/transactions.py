"""Where a transactional checkpoint begins and ends, read in an order that makes it sound.

First the stable ends of all logs are read, which are the floors, then the offsets of the groups.
Then transactions end twice: those that were open when the high watermarks were read. Only then the
checkpoint's ends are read. So every transaction with a record before these watermarks is complete
at the ends, and what has to be left out was committed after the floors were read: all its records,
markers and commits are after them.

What was written before the floors is not read, so they are read as late as possible: again before
each time that transactions end. An application with a transaction that stays open for a minute then
costs no more reading than one whose transactions are short.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.logs import Ends, Logs, read_ends, read_logs, settled
from breakglass.services.checkpoint.kafka.owners import read_named_groups
from breakglass.services.checkpoint.kafka.transaction_logs import (
    CommitRow,
    HistoryReader,
    LoggedBatches,
    ReadContents,
)
from breakglass.services.checkpoint.protocol.transactions import (
    ENDINGS,
    NO_PRODUCER,
    LoggedTransaction,
    OffsetCommit,
    ProducerHistory,
    ProducerRun,
    Stretch,
    TransactionName,
    TransactionPart,
    by_order,
    named,
    require_uncompacted_rows,
    runs_of,
)
from breakglass.services.checkpoint.store.documents import TakeDocument, TransactionFloors
from breakglass.services.errors import BreakglassError, Refused, TimedOut
from breakglass.services.kafka.cluster.group_offsets import OFFSETS_TOPIC
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import TRANSACTION_STATE, TopicPartition, log_of

FEW = 10_000
"""Offsets that are read so fast that a shorter window is not worth a wait."""
MOST_ENDINGS = ENDINGS + 2
"""How often transactions end at most, for a window that is shorter."""
WORTHWHILE = 0.5
"""Transactions end once more if the last time has made the window this much shorter."""


@dataclass(frozen=True, slots=True)
class TransactionWindow:
    """The floors and the ends of a checkpoint, read when it is started."""

    floors: TransactionFloors
    ends: Ends

    def offsets(self, numbers: Mapping[TopicPartition, int]) -> int:
        """Offsets of the checkpoint's partitions that are to be read."""
        floors = self.floors.stable
        return sum(max(0, self.ends[log] - floors[number]) for log, number in numbers.items())


def read_floors(
    client: ReadClient,
    logs: Logs,
    groups: Sequence[str],
    numbers: Mapping[TopicPartition, int],
    deadline: Deadline,
) -> TransactionFloors:
    """The stable ends of *logs* and of the internal topics, then the offsets of *groups*.

    *numbers* are those of the partitions in the checkpoint.

    Raises ClusterError, NotAuthorized, Unreachable: they cannot be read.
    """
    stable = logs.stable_ends(deadline)
    internal: Ends = {}
    if groups:
        offsets = read_logs(client, (OFFSETS_TOPIC,), deadline)
        wanted = {log_of(name, OFFSETS_TOPIC, len(offsets.states)) for name in groups}
        ends = offsets.stable_ends(deadline)
        internal = {partition: ends[partition] for partition in sorted(wanted)}
    # Before the first transaction the cluster has no coordinators' logs.
    if client.partitions((TRANSACTION_STATE,), deadline):
        internal |= read_logs(client, (TRANSACTION_STATE,), deadline).high_watermarks(deadline)
    standing = read_named_groups(client, groups, numbers, deadline)
    found: dict[str, dict[int, int]] = {}
    for partition, end in internal.items():
        found.setdefault(partition.topic, {})[partition.partition] = end
    return TransactionFloors(
        found,
        {
            name: {numbers[read]: offset for read, offset in sorted(offsets.items())}
            for name, offsets in standing.items()
        },
        {number: stable[partition] for partition, number in numbers.items()},
    )


def read_window(
    client: ReadClient, groups: Sequence[str], numbers: Mapping[TopicPartition, int], seconds: float
) -> TransactionWindow:
    """Floors, then the ends once transactions have ended twice after the floors were read.

    A transaction that was open at first has ended on one partition after the first time, and has
    its markers on all partitions after the second time. Transactions end more often while that
    makes the window much shorter, each time within *seconds*.

    Raises:
        TimedOut: a transaction stays open.
        ClusterError, NotAuthorized, Unreachable: logs or groups cannot be read.
    """
    topics = sorted({partition.topic for partition in numbers})

    def read_now(deadline: Deadline) -> TransactionFloors:
        def read() -> TransactionFloors:
            logs = read_logs(client, topics, deadline)
            return read_floors(client, logs, groups, numbers, deadline)

        return until(deadline, read)

    floors: list[TransactionFloors] = []
    found: TransactionWindow | None = None
    while len(floors) < MOST_ENDINGS:
        try:
            floors.append(read_now(Deadline.after(patience.COMMAND)))
            settled(client, topics, Deadline.after(seconds))
            if len(floors) < ENDINGS:
                continue
            _, ends = read_ends(client, topics, Deadline.after(patience.COMMAND))
        except BreakglassError:
            if found is None:
                raise
            return found
        before = found.offsets(numbers) if found else None
        found = TransactionWindow(floors[-ENDINGS], ends)
        if not worth_another(found.offsets(numbers), before):
            break
    assert found is not None
    return found


def worth_another(offsets: int, before: int | None) -> bool:
    """Whether a window of *offsets* may be made much shorter; *before* was the last one's."""
    return offsets > FEW and (before is None or offsets <= WORTHWHILE * before)


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

    def transactions(
        self, deadline: Deadline
    ) -> tuple[tuple[LoggedTransaction, ...], dict[int, tuple[Stretch, ...]]]:
        """Every transaction that may have to be left out at the ends; records outside any.

        The latter by the number of their partition.

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
            reader = HistoryReader(
                self.client, self._internal(TRANSACTION_STATE), producers, self.wait
            )
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
        joined = tuple(self._joined(contents, tuple(named(runs, histories))))
        return joined, {self.numbers[log]: stretches for log, stretches in plain.items()}

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
            if log.topic == OFFSETS_TOPIC:
                continue
            within = tuple(each for each in outside if each[0] < self.ends[log])
            if within and log.topic not in self.take.external:
                raise Refused(
                    f"unverifiable: the record at offset {within[0][0]} of {log} was written "
                    "outside any transaction, so nothing says what led to it: declare the topic "
                    "with --external where it is written from outside alone, or take its writer's "
                    "topics at another level"
                )
            plain[log] = within
        return runs, plain

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
                read = TopicPartition(row.topic, row.partition)
                number = self.numbers.get(read)
                if number is None:
                    raise Refused(
                        f"unverifiable: group {row.group} also reads {read.topic}, which is not in "
                        "the checkpoint: add it to --topics"
                    )
                commit = OffsetCommit(log.partition, row.position, row.group, number, row.offset)
                commits.setdefault(name, []).append(commit)
        for name in sorted({*parts, *commits}):
            own = tuple(commits.get(name, ()))
            if own or parts.get(name):
                yield LoggedTransaction(name, parts.get(name, {}), own)


def _writer(
    written: Sequence[tuple[int, int, TransactionName]], row: CommitRow
) -> TransactionName | None:
    """The transaction that has written *row*; None: the group has committed by itself."""
    at = bisect_right(written, row.position, key=lambda each: each[0]) - 1
    if at < 0:
        return None
    _, last, name = written[at]
    return name if row.position <= last else None
