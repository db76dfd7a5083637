"""Restores partitions in tasks of Spark: exactly once, and in order.

Each partition has one task, which Spark retries. Its client sends stored records as batches in
transactions, and builds the next batch while one is sent. Each transaction has some thousands of
records and the restore progress: the next stored offset, committed for a group that belongs to this
restore. A new attempt first fences the earlier attempt, and only then reads its progress (B6). The
offset log announces each transaction before its commit, so the map from old to new offsets survives
every kill.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from breakglass.services import patience
from breakglass.services.errors import (
    AuthenticationFailed,
    BreakglassError,
    CannotProduce,
    NotAuthorized,
    PipelineError,
    TimedOut,
    TopicRecreated,
    Unreachable,
    UsageError,
)
from breakglass.services.kafka.cluster.group_offsets import committed_offset
from breakglass.services.kafka.producer import (
    PartitionProducer,
    TransactionClient,
    idempotent_producer,
    refusal,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.replicas.list_offsets import (
    LATEST,
    LEADER_ONLY,
    READ_COMMITTED,
    ListedOffset,
    list_offsets,
)
from breakglass.services.kafka.wire.answers import GROUP_AUTHORIZATION_FAILED
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.pipeline.batches.record_batch import (
    Producer,
    batch_rows,
    record_batch,
    stored_columns,
)
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.pipeline.restore.offset_map import (
    Announced,
    CommittedRun,
    OffsetLog,
    runs_of,
)
from breakglass.services.pipeline.restore.task import (
    ForeignRecords,
    Hopeless,
    PartitionRestored,
    PartitionTask,
    declared_of,
)
from breakglass.services.pipeline.spark_job import answers, packed, unpacked
from breakglass.services.pipeline.stored_segments import Longs, RecordRun, joined
from breakglass.services.session import Power, ReadAccess

if TYPE_CHECKING:
    from breakglass.services.pipeline.backup_context import BackupRun

BATCH_BYTES = 1_000_000
"""Just under the default max.message.bytes of topics, which a restore raises while it runs."""
WAITING = 2
"""The maximum number of batches that are built ahead."""
SEQUENCES = 2**31


class RecordClient:
    """The producer of a task, with its transactional id or without transactions."""

    def __init__(self, client: ReadClient, task: PartitionTask) -> None:
        """Fence earlier attempts at the partition, which ends their transaction."""
        self._task = task
        self._partition = TopicPartition(task.topic, task.partition)
        sender = client.sender
        self._transactions: TransactionClient | None = None
        if task.transactional:
            transactions = TransactionClient(
                sender, task.transactional_id, task.where, int(patience.TRANSACTION * 1000)
            )
            self._transactions = transactions
            known = transactions.fence(Deadline.after(patience.TRANSACTION))
        else:
            known = idempotent_producer(sender, task.where, Deadline.after(patience.TRANSACTION))
        self._producer = Producer(known.id, known.epoch, task.transactional)
        id = task.transactional_id if task.transactional else None
        self._writer = PartitionProducer(client, self._partition, id)
        self._sequence = 0
        self._thread = ThreadPoolExecutor(1, "records")
        self._under_way: deque[Future[Longs]] = deque()
        self._placed: list[Longs] = []
        self._deadline = Deadline.after(patience.TRANSACTION)

    def __enter__(self) -> RecordClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            Unreachable: the coordinator or the partition's leader does not answer.
            TopicRecreated: the topic was deleted.
        """
        self._deadline = Deadline.after(patience.TRANSACTION)
        if (transactions := self._transactions) is not None:
            until(self._deadline, lambda: self._add_to(transactions))

    def send(self, run: RecordRun) -> Longs:
        """Send the records of *run*; return their stored timestamp types.

        Raises:
            MalformedInput: the bytes are not records.
            BreakglassError: as `PartitionProducer.write`, also for earlier batches.
        """
        columns = stored_columns(run)
        for start, end in batch_rows(columns, BATCH_BYTES):
            batch = record_batch(columns.rows(start, end), self._producer, self._sequence)
            self._sequence = (self._sequence + end - start) % SEQUENCES
            self._under_way.append(self._thread.submit(self._sent, batch, end - start))
            while len(self._under_way) > WAITING:
                self._placed.append(self._under_way.popleft().result())
        return columns.types

    def flush(self) -> Longs:
        """Wait for all records of the transaction; return their new offsets. Raises as `send`."""
        while self._under_way:
            self._placed.append(self._under_way.popleft().result())
        placed, self._placed = self._placed, []
        return np.concatenate(placed) if placed else np.zeros(0, np.int64)

    def commit(self, next_offset: int) -> None:
        """Commit the records and the restore progress; without transactions, do nothing."""
        if self._transactions is not None:
            self._transactions.commit_offset(
                self._task.group, self._partition, next_offset, self._deadline
            )
            self._transactions.end(Deadline.after(patience.TRANSACTION), commit=True)

    def _add_to(self, transactions: TransactionClient) -> None:
        """Add the partition to the transaction. A coordinator never reports a deleted topic."""
        try:
            transactions.add(self._partition, self._deadline.sooner(patience.LEADERLESS))
        except Unreachable:
            self._writer.find_leader(self._deadline)
            raise

    def _sent(self, batch: bytes, count: int) -> Longs:
        first = self._writer.write(batch, self._deadline)
        return np.arange(first, first + count)


class ClusterProgress:
    """The progress of earlier attempts, by the committed offset of the group and the topic."""

    def __init__(self, client: ReadClient, task: PartitionTask) -> None:
        self._client = client
        self._task = task
        self._partition = TopicPartition(task.topic, task.partition)

    def reached(self) -> int | None:
        """The next stored offset; None if the group does not exist, or has expired.

        The earlier attempt is fenced, and its transaction has ended. An offset that is still
        pending stays pending, so waiting for it, as a committed read does, would not help.
        """
        sender, group, deadline = (
            self._client.sender,
            self._task.group,
            Deadline.after(patience.JOB),
        )
        try:
            return committed_offset(sender, group, self._partition, deadline)
        except NotAuthorized:
            # The ACL that commits for the group also reads it.
            raise refusal(GROUP_AUTHORIZATION_FAILED, self._task.where) from None

    def readable(self, announced: Announced) -> bool:
        """Whether the first record of *announced* is committed.

        Raises:
            PipelineError: a transaction of another producer is open before it.
            TopicRecreated: the topic was deleted.
            Unreachable: the partition has no leader, or no broker answers.
        """
        wanted = announced.runs[0].new_offset
        deadline = Deadline.after(patience.JOB)
        state = until(deadline, lambda: self._state(deadline))
        assert state.leader is not None
        end = list_offsets(
            self._client.sender,
            state.leader,
            [self._partition],
            LATEST,
            deadline,
            replica_id=LEADER_ONLY,
            leader_epochs={self._partition: state.leader_epoch},
            isolation_level=READ_COMMITTED,
        ).get(self._partition)
        if not isinstance(end, ListedOffset):
            raise PipelineError(f"the end of {self._task.where} cannot be read: try again.")
        if end.offset <= wanted:
            raise PipelineError(
                f"{self._task.where} has an open transaction before offset {wanted}, so the "
                "progress of the restore cannot be read: end that transaction, then try again."
            )
        log = CommittedLog(self._client.sender, state.leader, self._partition)
        return next(log.records(wanted, wanted + 1), None) is not None

    def _state(self, deadline: Deadline) -> PartitionState:
        self._client.describe(deadline)
        for state in self._client.partitions([self._task.topic], deadline):
            if state.partition == self._partition:
                if state.leader is None:
                    raise TimedOut(f"{self._task.where} has no leader: try again.", "no leader")
                return state
        raise TopicRecreated(f"{self._task.where} was deleted during its restore: restore it again")


FIRST_BYTES = 1024 * 1024
MOST_BYTES = 32 * 1024 * 1024
"""The largest transaction in bytes; transactions grow while the brokers are fast."""
QUICK_SECONDS, SLOW_SECONDS = 2.0, 10.0
FACTOR = 4


@dataclass(slots=True)
class TransactionPace:
    """The size of a transaction, chosen so that each takes some seconds."""

    bytes: int = FIRST_BYTES

    def took(self, seconds: float) -> None:
        if seconds < QUICK_SECONDS:
            self.bytes = min(self.bytes * FACTOR, MOST_BYTES)
        elif seconds > SLOW_SECONDS:
            self.bytes = max(self.bytes // FACTOR, FIRST_BYTES)


class Producing:
    """One attempt to restore a partition, whose client has fenced earlier attempts."""

    def __init__(
        self, task: PartitionTask, client: RecordClient, progress: ClusterProgress
    ) -> None:
        self._task = task
        self._client = client
        self._progress = progress
        self._log = OffsetLog(task.log_path)
        self._pace = TransactionPace()
        self._restored = PartitionRestored(task.partition)

    def run(self) -> PartitionRestored:
        """Restore the records after the progress of earlier attempts."""
        # The stored offset to resume from.
        reached = self._progress.reached() if self._task.transactional else None
        for some in self._transactions(self._log.settle(reached, self._progress.readable) or 0):
            began = time.monotonic()
            # Commit some.
            self._client.begin()
            declared = declared_of(self._client.send(some))
            placed = self._client.flush()
            announced = self._log.announce(self._runs(some, placed, declared))
            self._client.commit(announced.next_offset)
            self._log.confirm(announced)
            self._restored.records += len(some.offsets)
            self._restored.bytes += len(some.data)
            self._pace.took(time.monotonic() - began)
        return self._restored

    def _transactions(self, start: int) -> Iterator[RecordRun]:
        # There may be as many runs as records, and a transaction takes longer than a record.
        held: list[RecordRun] = []
        for run in self._task.runs(start):
            at = 0
            while at < len(run.offsets):
                room = run.bounds[at] + self._pace.bytes - sum(len(one.data) for one in held)
                fits = int(np.searchsorted(run.bounds, room, side="right")) - 1
                limit = self._task.records_a_transaction - sum(len(one.offsets) for one in held)
                upto = min(at + limit, max(at if held else at + 1, fits), len(run.offsets))
                held += [run.cut(at, upto)] if at < upto else []
                at = upto
                if at < len(run.offsets):
                    yield joined(held)
                    held = []
        if held:
            yield joined(held)

    def _runs(self, some: RecordRun, placed: Longs, declared: dict[str, int]) -> list[CommittedRun]:
        if not self._task.alone:
            # Other producers write in between.
            begun, *others = runs_of(some.offsets.tolist(), placed.tolist())
            return [replace(begun, declared=declared), *others]
        count, first = len(placed), int(placed[0])
        if int(placed[-1]) - first != count - 1:
            raise ForeignRecords(
                f"{self._task.where} has another writer: stop it and delete the topic, then "
                "restore it again."
            )
        start, end = int(some.offsets[0]), int(some.offsets[-1]) + 1
        return [CommittedRun(start, end, first, count, declared)]


IN_VAIN = (AuthenticationFailed, CannotProduce, Hopeless, NotAuthorized, TopicRecreated, UsageError)
"""Errors that a retry would meet again."""


@dataclass(frozen=True, slots=True)
class RestoreJob:
    """The data that each task of a job has in addition to its partitions."""

    connection: bytes = field(repr=False)
    """The bytes of `packed`."""
    cluster_id: str

    def __call__(self, tasks: Iterable[PartitionTask]) -> Iterator[PartitionRestored]:
        power = Power(ReadAccess(unpacked(self.connection)))
        for task in tasks:
            yield produced(power, self.cluster_id, task)


def produced(power: Power, cluster_id: str, task: PartitionTask) -> PartitionRestored:
    """Restore one partition, from the progress of earlier attempts on.

    Raises BreakglassError: a retry may succeed.
    """
    try:
        with (
            power.records(cluster_id) as sender,
            RecordClient(client := ReadClient(sender), task) as records,
        ):
            return Producing(task, records, ClusterProgress(client, task)).run()
    except IN_VAIN as error:
        foreign = isinstance(error, ForeignRecords)
        return PartitionRestored(task.partition, error=str(error), foreign=foreign)


def produce_by_tasks(
    run: BackupRun, cluster_id: str, tasks: Sequence[PartitionTask], doing: str
) -> list[PartitionRestored]:
    """Restore *tasks*, each in one task of Spark.

    Raises PipelineError: a task failed in every attempt, or Spark failed.
    """
    job = RestoreJob(packed(run.access.settings_now), cluster_id)
    return answers(run.context(), tasks, len(tasks), job, doing)


def failures(restored: Iterable[PartitionRestored]) -> BreakglassError | None:
    """The error of the failed partitions; foreign records come first."""
    failed = sorted(
        (result for result in restored if result.error), key=lambda result: not result.foreign
    )
    if not failed:
        return None
    return (ForeignRecords if failed[0].foreign else Hopeless)(failed[0].error)
