"""Committed records of a topic, read by Spark within exact offsets, and what failures mean."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from services.errors import DiskFull, PipelineError, StorageError
from services.pipeline.answers import answer, sizes
from services.pipeline.encoding import encoded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ranges = Mapping[int, tuple[int, int]]
"""Offsets ``[start, end)`` by partition; never empty ones."""

OFFSETS_A_TASK = 200_000
"""A partition is split between cores if each gets so much."""
READER_OPTIONS: Mapping[str, str] = {
    "includeHeaders": "true",
    "failOnDataLoss": "true",
    "kafkaConsumer.pollTimeoutMs": "60000",
    "kafka.isolation.level": "read_committed",
    "kafka.fetch.max.bytes": str(64 * 1024 * 1024),
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafka.max.poll.records": "5000",
    "kafka.receive.buffer.bytes": str(1024 * 1024),
}
IN_SIPS: Mapping[str, str] = {
    "kafka.fetch.max.bytes": str(1024 * 1024),
    "kafka.max.partition.fetch.bytes": str(1024 * 1024),
    "kafka.max.poll.records": "1000",
}
"""Beside live traffic: a fetch of megabytes holds up whoever comes behind it."""

SMALL_RECORD = 8 * 1024
BATCH_RECORDS = 4000
BATCHES_BYTES = 256 * 1024 * 1024
"""Of small records at worst, in all tasks of a JVM, which has a gigabyte for them."""
LARGE = "large"
"""What a task answers that has met a record that is not small."""

Worker = Callable[[Iterator[Any]], Iterator[Any]]
"""What is done with the record batches of a task."""


class DataLost(PipelineError):
    """The range begins before the log does by now (B3)."""


class TimestampTooWide(PipelineError):
    """A record has a timestamp that Spark cannot hold (B1)."""

    def __init__(self, message: str, partition: int | None) -> None:
        super().__init__(message)
        self.partition = partition
        """Of which partition; None where Spark does not say."""


@dataclass(slots=True)
class TopicReader:
    """Reads one topic by Spark, encoded, each record once.

    Records are taken to be small, until a job finds that one is not: it is done again then.
    """

    session: SparkSession
    connection: Mapping[str, str]
    """Kafka's own keys, for the clients within the JVM."""
    topic: str
    small: bool = True
    share: float = 1.0
    """Of the cores, which others use beside it."""
    in_sips: bool = False
    """Fetch little at a time: it keeps to a rate."""

    def run(self, ranges: Ranges, worker: Worker, column: str) -> list[str]:
        """Give the records of *ranges* to *worker*, task by task; returns what it answered.

        A batch has the columns ``record``, as `encoded` makes it, and ``partition``; offsets
        rise, and a batch is of one partition. The answer is the one text *column* of the batches
        that the *worker* yields, of those attempts that succeeded.

        Raises:
            DataLost, TimestampTooWide: as they say; nothing of the job counts then.
            StorageError: a worker could not read or write a file.
            PipelineError: anything else that ended the job.
        """
        records, doing = self._records(ranges), f"reading topic {self.topic}"
        if self.small:
            bounded = encoded(self.session, records, "partition", most=SMALL_RECORD)
            with _settings(self.session, unmeasured(self._cores)):
                work = partial(while_small, worker=worker, column=column)
                answers = collected(bounded, work, column, doing)
            self.small = LARGE not in answers
            if self.small:
                return answers
        return collected(encoded(self.session, records, "partition"), worker, column, doing)

    def side_by_side(self, ranges: Ranges) -> int:
        """How many tasks of a job of *ranges* run at a time."""
        return max(1, min(self._cores, self._tasks(ranges)))

    def _tasks(self, ranges: Ranges) -> int:
        offsets = sum(end - start for start, end in ranges.values())
        cores = max(1, int(self._cores * self.share))
        return max(min(cores, offsets // OFFSETS_A_TASK), len(ranges))

    @property
    def _cores(self) -> int:
        return int(self.session.sparkContext.defaultParallelism)

    def _records(self, ranges: Ranges) -> DataFrame:
        starts = {str(number): start for number, (start, _) in ranges.items()}
        ends = {str(number): end for number, (_, end) in ranges.items()}
        options = {**READER_OPTIONS, **(IN_SIPS if self.in_sips else {})}
        reader = self.session.read.format("kafka").options(**options)
        for key, value in self.connection.items():
            reader = reader.option(f"kafka.{key}", value)
        return (
            reader.option("assign", json.dumps({self.topic: sorted(ranges)}))
            .option("startingOffsets", json.dumps({self.topic: starts}))
            .option("endingOffsets", json.dumps({self.topic: ends}))
            .option("minPartitions", str(self._tasks(ranges)))
            .load()
        )


def unmeasured(cores: int) -> Mapping[str, str]:
    """Settings of Spark's for small records: batches of so many, whose bytes are not measured.

    It measures with each record, which takes a fifth of all that a record of 1 KB takes.
    """
    fits = BATCHES_BYTES // (2 * SMALL_RECORD * cores)
    return {
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(max(1, min(fits, BATCH_RECORDS))),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    }


@contextmanager
def _settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Let what is run within have these *settings* of Spark's."""
    before = {key: session.conf.get(key) for key in settings}
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            session.conf.set(key, old or "")


def while_small(batches: Iterator[Any], worker: Worker, column: str) -> Iterator[Any]:
    """What *worker* makes of *batches*, or `LARGE` once one of them has an empty record."""
    large = False

    def small() -> Iterator[Any]:
        nonlocal large
        for batch in batches:
            large = large or not sizes(batch.column("record")).all()
            if not large:
                yield batch

    for one in worker(small()):
        if not large:
            yield one
    if large:
        yield answer(column, LARGE)


def collected(rows: DataFrame, worker: Worker, column: str, doing: str) -> list[str]:
    """What *worker* makes of *rows*: the text *column* of what it yields.

    Raises: as `TopicReader.run`.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        answers = rows.mapInArrow(worker, f"{column} string").collect()
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise job_error(str(error), doing) from error
    return [str(answer[column]) for answer in answers]


_OS_ERROR = re.compile(r"(?:OSError|PermissionError|FileNotFoundError): \[Errno (\d+)\] ([^\n]*)")
_WIDE = re.compile(r"long overflow|overflows when converting to Spark")
_WIDE_AT = re.compile(r"Record at topic \S+ partition (\d+) offset \d+ has timestamp value")
_OURS = re.compile(r"services(?:\.\w+)+\.([A-Z]\w+): ([^\n]+)")
"""An error of ours, raised in a task: it says what to do by itself."""
_OF_STORAGE: Mapping[str, type[StorageError]] = {
    "StorageError": StorageError,
    "DiskFull": DiskFull,
    "DamagedBackup": StorageError,
    "ConflictingRecord": StorageError,
}
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(\S.*)")
"""What a Python worker has ended with: the last of what led to one another."""
_KEPT = 300
"""Characters of Spark's own words that a message holds."""
_KEPT_OF_OURS = 2000
"""Of an error of ours, which is bounded where it is made, and ends with what to do."""


def job_error(text: str, doing: str) -> PipelineError | StorageError:
    """The error for a job that ended with *text*, which may be pages long."""
    if _WIDE.search(text):
        named = _WIDE_AT.search(text)
        partition = int(named[1]) if named else None
        return TimestampTooWide(f"{doing}: a timestamp is out of Spark's range", partition)
    if any(sign in text for sign in ("KAFKA_DATA_LOSS", "OffsetOutOfRange", "data was lost")):
        return DataLost(f"{doing}: the log begins later by now")
    # What was raised last is what the task ended with; before it comes what led to it.
    ours, from_system = _last(_OURS, text), _last(_OS_ERROR, text)
    if ours and (from_system is None or from_system.start() < ours.start()):
        kind = _OF_STORAGE.get(ours[1], PipelineError)
        return kind(f"{doing}: {ours[2][:_KEPT_OF_OURS]}")
    if from_system:
        reason = f"{from_system[2]}; free space or check rights, then run it again."
        return StorageError(f"{doing}: {reason}")
    raised = _RAISED.findall(text) or [line for line in text.splitlines() if line.strip()][:1]
    cause = raised[-1] if raised else "no reason given"
    return PipelineError(
        f"{doing} failed in Spark ({cause[:_KEPT]}): see its log, then run it again."
    )


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return max(pattern.finditer(text), key=lambda match: match.start(), default=None)
