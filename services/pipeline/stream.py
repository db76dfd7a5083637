"""Spark's Structured Streaming from exact offsets on: micro-batches as soon as there are records.

It is assigned partitions, it does not subscribe: a single partition without a leader would hold
up all others, and which topics are wanted is not for Spark to say. Its checkpoint is thrown away:
where a stream begins, the manifests say.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from services.errors import PipelineError
from services.model import TopicPartition
from services.pipeline.encoding import encoded
from services.pipeline.micro_batch import FIELDS, MicroBatch
from services.pipeline.reading import READER_OPTIONS
from services.pipeline.running import Run
from services.pipeline.session import jvm_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

TRIGGER_SECONDS = 1.0
"""How often Spark looks for new records."""
PATIENCE = {"request.timeout.ms": "10000", "default.api.timeout.ms": "10000"}
"""So long it waits for a leader; then the stream ends."""

Ends = Mapping[TopicPartition, int]
"""The next offset of each partition."""


class Stream:
    """Entered, it runs in threads of Spark's, until the block ends or something goes wrong."""

    def __init__(
        self, run: Run, ends: Ends, each: Callable[[MicroBatch], None], trigger: float
    ) -> None:
        """Prepare the partitions of *ends* from there on; *each* gets the batches, in a thread.

        A batch begins *trigger* seconds after the one before it began, or when that is done.
        """
        self._run = run
        self._ends = dict(ends)
        self._each = each
        self._trigger = trigger

    def __enter__(self) -> Stream:
        """Start it. Raises PipelineError when Spark does not."""
        self._checkpoint = Path(tempfile.mkdtemp(prefix="breakglass-stream-"))
        try:
            with jvm_errors("streaming records"):
                self._query = self._started()
        except PipelineError:
            shutil.rmtree(self._checkpoint, ignore_errors=True)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        with suppress(PySparkException, Py4JError, ConnectionError):
            self._query.stop()
        shutil.rmtree(self._checkpoint, ignore_errors=True)

    @property
    def running(self) -> bool:
        """Whether batches are still to come."""
        from py4j.protocol import Py4JError

        try:
            return bool(self._query.isActive)
        except (Py4JError, ConnectionError):
            return False

    def _started(self) -> StreamingQuery:
        from pyspark.errors import PySparkException

        try:
            return (
                encoded(self._run.session(), self._records(), *FIELDS)
                .writeStream.foreachBatch(self._take)
                .option("checkpointLocation", self._checkpoint.as_uri())
                .trigger(processingTime=f"{self._trigger} seconds")
                .start()
            )
        except PySparkException as error:
            raise PipelineError(f"no stream of records: {error}; see Spark's log.") from error

    def _records(self) -> DataFrame:
        limit = self._run.settings.offsets_a_job
        reader = self._run.session().readStream.format("kafka").options(**READER_OPTIONS)
        for key, value in {**self._run.connection, **PATIENCE}.items():
            reader = reader.option(f"kafka.{key}", value)
        numbers = {topic: sorted(some) for topic, some in by_topic(self._ends).items()}
        return (
            reader.option("assign", json.dumps(numbers))
            .option("startingOffsets", json.dumps(by_topic(self._ends)))
            .option("maxOffsetsPerTrigger", str(limit))
            .load()
        )

    def _take(self, records: DataFrame, number: int) -> None:
        """One batch: Spark has written down where it ends before it gives it away."""
        ends = planned_ends((self._checkpoint / "offsets" / str(number)).read_text("utf-8"))
        ranges = {one: (self._ends[one], end) for one, end in ends.items() if end > self._ends[one]}
        self._ends.update(ends)
        if ranges:
            self._each(MicroBatch(records, ranges))


def require_spark(run: Run) -> None:
    """Return if Spark's JVM answers.

    Raises:
        PipelineError: it has ended, and no job can be run any more.
    """
    session = run.session()
    with jvm_errors("backing up"):
        session.sparkContext.startTime  # noqa: B018


def by_topic(ends: Ends) -> dict[str, dict[int, int]]:
    """Offsets as Spark's Kafka source takes them, by topic and partition."""
    found: dict[str, dict[int, int]] = {}
    for one, end in ends.items():
        found.setdefault(one.topic, {})[one.partition] = end
    return found


def planned_ends(text: str) -> dict[TopicPartition, int]:
    """The ends of a batch, as the checkpoint's file about it has them in its last line.

    Raises:
        PipelineError: it has not.
    """
    try:
        found = json.loads(text.rstrip().splitlines()[-1])
        return {
            TopicPartition(topic, int(number)): int(end)
            for topic, some in found.items()
            for number, end in some.items()
        }
    except (ValueError, IndexError, AttributeError, TypeError) as error:
        raise PipelineError(f"Spark's checkpoint is of another form ({error}).") from error
