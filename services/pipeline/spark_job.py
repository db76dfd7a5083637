"""Connection settings on their way to tasks, secrets included.

A `Secret` refuses to be pickled, lest it be written somewhere by mistake. Tasks connect to brokers
by themselves, so for them alone it is taken along, in bytes that only `unpacked` makes use of.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from services.connection.secret import Secret
from services.connection.settings import ConnectionSettings
from services.errors import DiskFull, PipelineError, StorageError

if TYPE_CHECKING:
    from pyspark import SparkContext


class _Packing(pickle.Pickler):
    dispatch_table = {Secret: lambda secret: (Secret, (secret.reveal(),))}  # noqa: RUF012


def packed(settings: ConnectionSettings) -> bytes:
    """The *settings* as bytes that hold their secrets: they go to tasks and nowhere else."""
    file = io.BytesIO()
    _Packing(file).dump(settings)
    return file.getvalue()


def unpacked(content: bytes) -> ConnectionSettings:
    """What `packed` was given, in a task that was sent it by the driver."""
    settings = pickle.loads(content)  # noqa: S301
    assert isinstance(settings, ConnectionSettings)
    return settings


Item = TypeVar("Item")
Answer = TypeVar("Answer")

_OS_ERROR = re.compile(r"(?:OSError|PermissionError|FileNotFoundError): \[Errno (\d+)\] ([^\n]*)")
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


def answers(
    context: SparkContext,
    items: Sequence[Item],
    tasks: int,
    work: Callable[[Iterable[Item]], Iterator[Answer]],
    doing: str,
) -> list[Answer]:
    """What *work* makes of the *items*, divided between so many *tasks*.

    Of attempts that failed, and of copies of a task that came second, nothing is returned.

    Raises:
        StorageError: a task could not read or write a file.
        PipelineError: anything else that ended the job.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return context.parallelize(items, tasks).mapPartitions(work).collect()
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise job_error(str(error), doing) from error


def job_error(text: str, doing: str) -> PipelineError | StorageError:
    """The error for a job that ended with *text*, which may be pages long."""
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
