"""Java's producer in Spark's driver, for the records that librdkafka would change (B9).

Every record crosses from Python to Java by itself, so this is slow; it hands back as soon as
librdkafka can go on for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from services.errors import PipelineError
from services.pipeline.restore.native_client import NativeProgress
from services.pipeline.restore.producing import SECONDS, Producing
from services.pipeline.restore.task import PartitionRestored, PartitionTask
from services.pipeline.restore.values import easy, for_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CALM_RECORDS = 1_000
"""So many in a row that librdkafka keeps: going back to it costs a job of Spark."""
MOST_RECORDS = 2_000
"""Of one transaction: each keeps objects on both sides until it ends."""
BYTE_ARRAYS = "org.apache.kafka.common.serialization.ByteArraySerializer"


def produce_by_java(
    session: SparkSession,
    task: PartitionTask,
    properties: Mapping[str, str],
    connection: Mapping[str, Any],
) -> PartitionRestored:
    """Restore *task* from where it came, until librdkafka can go on.

    *properties* are for Java's clients, *connection* is librdkafka's.

    Raises:
        PipelineError: the cluster does not take the records.
    """
    from confluent_kafka import KafkaException
    from py4j.protocol import Py4JError

    task = replace(task, records_a_transaction=min(task.records_a_transaction, MOST_RECORDS))
    try:
        with (
            NativeProgress(task, connection) as progress,
            JavaClient(session, task, properties) as client,
        ):
            client.fence()
            return Producing(task, client, progress).run()
    except Py4JError as error:
        raise PipelineError(
            f"{task.where} does not take records from Java's producer ({_cause(error)}): try again "
            "with --resume."
        ) from None
    except KafkaException as error:
        raise PipelineError(
            f"how far the restore of {task.where} came cannot be read ({error.args[0].str()}): try "
            "again with --resume."
        ) from None


class JavaClient:
    """``org.apache.kafka.clients.producer.KafkaProducer``."""

    def __init__(
        self, session: SparkSession, task: PartitionTask, properties: Mapping[str, str]
    ) -> None:
        """Make it."""
        self._task = task
        self._sent: list[tuple[int | None, Any]] = []
        """Every record's future, with its number where its offset is to be told."""
        self._calm = 0
        jvm: Any = session._jvm
        # The connector's classes are known to Spark's own loader alone.
        loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
        jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)
        kafka = jvm.org.apache.kafka
        self._record = kafka.clients.producer.ProducerRecord
        self._headers = kafka.common.header.internals.RecordHeaders
        self._partition = kafka.common.TopicPartition(task.topic, task.partition)
        self._place = kafka.clients.consumer.OffsetAndMetadata
        self._group = kafka.clients.consumer.ConsumerGroupMetadata(task.group)
        self._map = jvm.java.util.HashMap
        settings = self._map()
        for name, value in {**properties, **_settings(task)}.items():
            settings.put(name, value)
        self._producer = kafka.clients.producer.KafkaProducer(settings)

    def __enter__(self) -> JavaClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    def fence(self) -> None:
        """Keep out whoever was at the partition before, and end its transaction."""
        if self._task.transactional:
            self._producer.initTransactions()

    def begin(self) -> None:
        self._producer.beginTransaction()

    def take(
        self, data: bytes, at: int, number: int, *, tell: bool, declare: Callable[[str], None]
    ) -> bool:
        """Send the record, unless librdkafka can take it and those behind it."""
        if self._calm >= CALM_RECORDS:
            return False
        fields = for_java(data, at, declare)
        if fields is None:
            return False
        self._calm = self._calm + 1 if easy(data, at) else 0
        headers = self._headers()
        for name, value in fields.headers:
            headers.add(name, value)
        record = self._record(
            self._task.topic,
            self._task.partition,
            fields.timestamp,
            fields.key,
            fields.value,
            headers,
        )
        self._sent.append((number if tell else None, self._producer.send(record)))
        return True

    def flush(self) -> Mapping[int, int]:
        """Wait for all of them."""
        self._producer.flush()
        sent, self._sent = self._sent, []
        placed = [(number, int(one.get().offset())) for number, one in sent]
        return {number: offset for number, offset in placed if number is not None}

    def commit(self, next_offset: int) -> None:
        """Commit, with how far the restore is."""
        if self._task.transactional:
            places = self._map()
            places.put(self._partition, self._place(next_offset))
            self._producer.sendOffsetsToTransaction(places, self._group)
            self._producer.commitTransaction()

    def abort(self) -> None:
        self._producer.abortTransaction()


def _settings(task: PartitionTask) -> dict[str, str]:
    milliseconds = str(int(SECONDS * 1000))
    settings = {
        "acks": "all",
        "enable.idempotence": "true",
        "key.serializer": BYTE_ARRAYS,
        "value.serializer": BYTE_ARRAYS,
        "linger.ms": "20",
        "max.request.size": str(2**31 - 1),
        "buffer.memory": str(512 * 1024 * 1024),
        "max.block.ms": milliseconds,
        "delivery.timeout.ms": milliseconds,
    }
    if task.transactional:
        settings |= {
            "transactional.id": task.transactional_id,
            "transaction.timeout.ms": milliseconds,
        }
    return settings


def _cause(error: Exception) -> str:
    thrown = getattr(error, "java_exception", None)
    return str(thrown.getMessage() if thrown is not None else error)[:300]
