"""Ranges of a topic as Spark's tasks: it schedules them and tries them again, records pass by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from services.pipeline.batches.carried import packed, unpacked
from services.pipeline.batches.copying import CopyRange, copy_range
from services.pipeline.part_writer import PartTarget
from services.session import ReadAccess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_tasks(
    session: SparkSession,
    ranges: Sequence[CopyRange],
    access: ReadAccess,
    target: PartTarget,
    doing: str,
) -> list[str]:
    """Copy *ranges*, a task each; returns the parts as JSON, of attempts that succeeded.

    Raises: as `job_error`.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from services.pipeline.reading import job_error

    work = partial(copied, content=packed(access.settings), target=target)
    try:
        return list(session.sparkContext.parallelize(ranges, len(ranges)).mapPartitions(work).collect())
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise job_error(str(error), doing) from error


def copied(ranges: Iterable[CopyRange], content: bytes, target: PartTarget) -> Iterator[str]:
    """What one task does."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = int(context.taskAttemptId()) if context else 0
    with ReadAccess(unpacked(content)).reading() as client:
        for one in ranges:
            for part in copy_range(client, one, target, attempt):
                yield part.to_json()
