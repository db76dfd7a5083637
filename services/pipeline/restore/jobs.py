"""Restores partitions in tasks of Spark: one task for each partition, which Spark retries.

The client of a task sends stored records as batches in transactions, and builds the next batch
while one is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from breakglass.services import patience
from breakglass.services.errors import (
    AuthenticationFailed,
    BreakglassError,
    CannotProduce,
    NotAuthorized,
    TopicRecreated,
    Unreachable,
    UsageError,
)
from breakglass.services.kafka.producing.partition_writer import PartitionProducer
from breakglass.services.kafka.producing.transaction import TransactionClient, idempotent_producer
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline, until
from breakglass.services.model import TopicPartition
from breakglass.services.pipeline.batches.record_batch import Producer, batch_rows, record_batch
from breakglass.services.pipeline.batches.stored_columns import stored_columns
from breakglass.services.pipeline.batches.varints import Longs
from breakglass.services.pipeline.restore.producing import ClusterProgress, Producing
from breakglass.services.pipeline.restore.task import (
    ForeignRecords,
    Hopeless,
    PartitionRestored,
    PartitionTask,
)
from breakglass.services.pipeline.spark_job import answers, packed, unpacked
from breakglass.services.pipeline.stored_segments import RecordRun
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


IN_VAIN = (AuthenticationFailed, CannotProduce, Hopeless, NotAuthorized, TopicRecreated, UsageError)
"""Errors that a retry would meet again."""


@dataclass(frozen=True, slots=True)
class RestoreJob:
    """The data that each task of a job has in addition to its partitions."""

    connection: bytes = field(repr=False)
    """The bytes of `packed`."""
    cluster_id: str

    def __call__(self, tasks: Iterable[PartitionTask]) -> Iterator[str]:
        power = Power(ReadAccess(unpacked(self.connection)))
        for task in tasks:
            yield produced(power, self.cluster_id, task).to_json()


def produced(power: Power, cluster_id: str, task: PartitionTask) -> PartitionRestored:
    """Restore one partition, from the progress of earlier attempts on.

    Raises:
        BreakglassError: a retry may succeed.
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

    Raises:
        PipelineError: a task failed in every attempt, or Spark failed.
    """
    job = RestoreJob(packed(run.access.settings_now), cluster_id)
    texts = answers(run.context(), tasks, len(tasks), job, doing)
    return [PartitionRestored.from_json(text) for text in texts]


def failures(restored: Iterable[PartitionRestored]) -> BreakglassError | None:
    """The error of the failed partitions; foreign records come first."""
    failed = sorted(
        (result for result in restored if result.error), key=lambda result: not result.foreign
    )
    if not failed:
        return None
    return (ForeignRecords if failed[0].foreign else Hopeless)(failed[0].error)
