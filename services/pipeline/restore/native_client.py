"""What runs in a task of a restore: librdkafka as the producer, and as the reader of progress."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from services.errors import PipelineError
from services.pipeline.answers import answer
from services.pipeline.restore.group_offset import committed_offset
from services.pipeline.restore.offset_log import Announced
from services.pipeline.restore.producing import SECONDS, Producing
from services.pipeline.restore.task import (
    ForeignRecords,
    Hopeless,
    PartitionRestored,
    PartitionTask,
)
from services.pipeline.restore.values import NeedsJava, for_librdkafka

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Consumer, KafkaError, Message, Producer

LOG = logging.getLogger(__name__)
LOG.addHandler(logging.NullHandler())
RESTORED = "restored"
PATIENCE = 10.0
"""Seconds without a word after which it is asked whether the topic is still there."""
DELETED = "it was deleted meanwhile, restore it anew"

HOPELESS: Mapping[str, str] = {
    "TOPIC_AUTHORIZATION_FAILED": "grant WRITE on it",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "grant WRITE on transactional ids that begin with "
    "breakglass-restore-",
    "GROUP_AUTHORIZATION_FAILED": "grant READ on groups that begin with breakglass-restore-",
    "CLUSTER_AUTHORIZATION_FAILED": "grant IDEMPOTENT_WRITE on the cluster",
    "MSG_SIZE_TOO_LARGE": "raise message.max.bytes of the brokers",
    "INVALID_RECORD": "see the broker's log",
    "POLICY_VIOLATION": "see the cluster's policy",
    "UNKNOWN_TOPIC_OR_PART": DELETED,
    "_UNKNOWN_TOPIC": DELETED,
    "_UNKNOWN_PARTITION": DELETED,
}
"""Errors that another attempt meets again, by name, and what is to be done."""

PURGED = frozenset({"_PURGE_QUEUE", "_PURGE_INFLIGHT"})


def worker(tasks: Sequence[PartitionTask], connection: Mapping[str, Any]) -> Any:
    """What Spark runs in each task."""
    return partial(produce_partitions, tasks=tasks, connection=connection)


def produce_partitions(
    batches: Iterator[pa.RecordBatch],
    tasks: Sequence[PartitionTask],
    connection: Mapping[str, Any],
) -> Iterator[pa.RecordBatch]:
    """Restore the *tasks* whose numbers are in the column ``id``; one row of text for each."""
    for batch in batches:
        for number in batch.column("id").to_pylist():
            restored = produce_partition(tasks[number], connection)
            yield answer(RESTORED, restored.to_json())


def produce_partition(task: PartitionTask, connection: Mapping[str, Any]) -> PartitionRestored:
    """Restore one partition, from where an earlier attempt came to what only Java can send."""
    from confluent_kafka import KafkaException

    try:
        with NativeProgress(task, connection) as progress:
            client = NativeClient(task, connection, progress)
            return Producing(task, client, progress).run()
    except KafkaException as error:
        reason = _reason(task, error.args[0])
        if isinstance(reason, Hopeless):
            return PartitionRestored(task.partition, error=str(reason))
        raise reason from None
    except Hopeless as error:
        foreign = isinstance(error, ForeignRecords)
        return PartitionRestored(task.partition, error=str(error), foreign=foreign)


def _reason(task: PartitionTask, error: KafkaError) -> PipelineError:
    step = HOPELESS.get(error.name())
    if step is not None:
        return Hopeless(f"{task.where} does not take records ({error.str()}): {step}.")
    return PipelineError(f"{task.where} does not take records ({error.str()}): try again.")


class NativeProgress:
    """What the cluster knows of earlier attempts, asked through librdkafka's consumer."""

    def __init__(self, task: PartitionTask, connection: Mapping[str, Any]) -> None:
        from confluent_kafka import Consumer

        self._task = task
        self._connection = connection
        settings = {
            **connection,
            "group.id": task.group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
        self.consumer: Consumer = Consumer(settings, logger=LOG)

    def __enter__(self) -> NativeProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()

    def reached(self) -> int | None:
        """The next stored offset; None where the group is not there, or no more.

        Whoever was at it before is fenced, and its transaction decided. An offset that is pending
        all the same stays so: to wait for it, as a reader of committed records does, is in vain.
        """
        from confluent_kafka import TopicPartition

        place = TopicPartition(self._task.topic, self._task.partition)
        return committed_offset(self._connection, self._task.group, place, SECONDS)

    def readable(self, one: Announced) -> bool:
        """Whether the first record of *one* can be read as committed.

        Raises:
            PipelineError: a transaction of somebody else is open before it.
        """
        from confluent_kafka import KafkaException, TopicPartition

        task, wanted = self._task, one.runs[0].new_offset
        self.consumer.assign([TopicPartition(task.topic, task.partition, wanted)])
        message = self.consumer.poll(SECONDS)
        self.consumer.unassign()
        if message is None:
            raise PipelineError(f"{task.where} cannot be read in time: try again.")
        error, offset = message.error(), message.offset()
        if error is None:
            return offset == wanted
        if error.name() != "_PARTITION_EOF":
            raise KafkaException(error)
        if offset is None or offset <= wanted:
            raise PipelineError(
                f"{task.where} has an open transaction before offset {wanted}, so how far the "
                "restore came cannot be read: end that transaction, then try again."
            )
        return False


class NativeClient:
    """librdkafka's producer."""

    def __init__(
        self, task: PartitionTask, connection: Mapping[str, Any], progress: NativeProgress
    ) -> None:
        """Make it, and fence whoever was at the partition before."""
        from confluent_kafka import Producer

        self._task = task
        self._progress = progress
        self._news: dict[int, int] = {}
        self._failure: KafkaError | None = None
        # A transaction that lost a record cannot be committed: nobody has to be told of each.
        self._otherwise = None if task.transactional else self._failed
        settings = _producer_settings(task)
        self._producer: Producer = Producer({**connection, **settings}, logger=LOG)
        if task.transactional:
            self._producer.init_transactions(SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def take(
        self, data: bytes, at: int, number: int, *, tell: bool, declare: Callable[[str], None]
    ) -> bool:
        """Send the record, but for one that only Java's producer keeps."""
        try:
            values = for_librdkafka(data, at, declare)
        except NeedsJava:
            return False
        callback = partial(self._delivered, number) if tell else self._otherwise
        while True:
            try:
                self._producer.produce(
                    self._task.topic,
                    partition=self._task.partition,
                    on_delivery=callback,
                    **values,
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                return True

    def flush(self) -> Mapping[int, int]:
        """Wait for all of them."""
        left = self._flushed()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise _reason(self._task, self._cause(failure))
        if left:
            raise PipelineError(
                f"{self._task.where} took too few records in {SECONDS:.0f} s: look for a produce "
                "quota or a broker in trouble, then go on with --resume."
            )
        news, self._news = self._news, {}
        return news

    def _cause(self, failure: KafkaError) -> KafkaError:
        """Why a record was purged: its transaction knows, and says so to whoever begins another."""
        from confluent_kafka import KafkaException

        if failure.name() in PURGED:
            try:
                self._producer.begin_transaction()
            except KafkaException as error:
                told: KafkaError = error.args[0]
                return failure if told.name() == "_STATE" else told
        return failure

    def _flushed(self) -> int:
        """Wait until none is left, or it is of no use; how many are."""
        give_up = time.monotonic() + SECONDS
        left = self._producer.flush(PATIENCE)
        while left and self._failure is None and time.monotonic() < give_up:
            self._require_topic()
            left = self._producer.flush(PATIENCE)
        return left

    def _require_topic(self) -> None:
        """Fail where the topic is no more: librdkafka would send again until its time is over.

        All topics are asked for, because naming one may create it.
        """
        from confluent_kafka import KafkaException

        with suppress(KafkaException):
            if self._task.topic not in self._producer.list_topics(timeout=PATIENCE).topics:
                raise Hopeless(f"{self._task.where} does not take records: {DELETED}.")

    def commit(self, next_offset: int) -> None:
        """Commit, with how far the restore is."""
        from confluent_kafka import TopicPartition

        if self._task.transactional:
            place = TopicPartition(self._task.topic, self._task.partition, next_offset)
            metadata = self._progress.consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([place], metadata, SECONDS)
            self._producer.commit_transaction(SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(SECONDS)

    def _delivered(self, number: int, error: KafkaError | None, message: Message) -> None:
        self._failed(error, message)
        if error is None:
            self._news[number] = message.offset() or 0

    def _failed(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = error


def _producer_settings(task: PartitionTask) -> dict[str, Any]:
    settings = {
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 20,
        "batch.size": 1_000_000,
        "batch.num.messages": 100_000,
        "message.max.bytes": 1_000_000_000,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 512 * 1024,
        "message.timeout.ms": int(SECONDS * 1000),
        # A topic that was deleted must not come back by itself, with settings of nobody's.
        "allow.auto.create.topics": False,
    }
    if task.transactional:
        settings |= {
            "transactional.id": task.transactional_id,
            "transaction.timeout.ms": int(SECONDS * 1000),
        }
    return settings
