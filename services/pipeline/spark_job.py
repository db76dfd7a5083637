"""One job of Spark: the connection settings that it sends to tasks, and the meaning of its failure.

A `Secret` refuses to be pickled, so that it is never written to a file by mistake. Tasks connect to
brokers themselves, so `packed` includes secrets in bytes that only `unpacked` reads.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from breakglass.services.connection.secret import Secret
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.errors import DiskFull, PipelineError, StorageError

if TYPE_CHECKING:
    from pyspark import SparkContext


class _Packing(pickle.Pickler):
    dispatch_table = {Secret: lambda secret: (Secret, (secret.reveal(),))}  # noqa: RUF012


def packed(settings: ConnectionSettings) -> bytes:
    """The *settings* as bytes with their secrets, to be sent only to tasks."""
    file = io.BytesIO()
    _Packing(file).dump(settings)
    return file.getvalue()


def unpacked(content: bytes) -> ConnectionSettings:
    """The settings from the bytes that `packed` made."""
    settings = pickle.loads(content)  # noqa: S301
    assert isinstance(settings, ConnectionSettings)
    return settings


Item = TypeVar("Item")
Answer = TypeVar("Answer")

_OS_ERROR = re.compile(r"(?:OSError|PermissionError|FileNotFoundError): \[Errno (\d+)\] ([^\n]*)")
_OURS = re.compile(r"services(?:\.\w+)+\.([A-Z]\w+): ([^\n]+)")
"""An error of ours that a task raised: its message already says what to do."""
_OF_STORAGE: Mapping[str, type[StorageError]] = {
    "StorageError": StorageError,
    "DiskFull": DiskFull,
    "DamagedBackup": StorageError,
    "ConflictingRecord": StorageError,
}
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(\S.*)")
"""The last of the chained exceptions with which a Python worker ended."""
_KEPT = 300
"""The maximum length of Spark's own words in a message."""
_KEPT_OF_OURS = 2000
"""The maximum length of an error of ours, which ends with what to do."""


def answers(
    context: SparkContext,
    items: Sequence[Item],
    tasks: int,
    work: Callable[[Iterable[Item]], Iterator[Answer]],
    doing: str,
) -> list[Answer]:
    """The answers of *work* for the *items*, which are divided between *tasks* tasks.

    Without items, as for a topic without records, no job runs: Spark divides by their number.
    Answers of failed attempts, and of speculative copies of a task, are dropped.

    Raises:
        StorageError: a task could not read or write a file.
        PipelineError: the job ended for another reason.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if not items:
        return []
    try:
        return context.parallelize(items, tasks).mapPartitions(work).collect()
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise job_error(str(error), doing) from error


def job_error(text: str, doing: str) -> PipelineError | StorageError:
    """The error of a job that ended with *text*, which may be pages long."""
    # The last exception ended the task; earlier ones are its causes.
    ours, from_system = _last(_OURS, text), _last(_OS_ERROR, text)
    if ours and (from_system is None or from_system.start() < ours.start()):
        kind = _OF_STORAGE.get(ours[1], PipelineError)
        return kind(f"{doing}: {ours[2][:_KEPT_OF_OURS]}")
    if from_system:
        reason = f"{from_system[2]}; free space or check rights, then run the command again."
        return StorageError(f"{doing}: {reason}")
    raised = _RAISED.findall(text) or [line for line in text.splitlines() if line.strip()][:1]
    cause = raised[-1] if raised else "no reason given"
    return PipelineError(
        f"{doing} failed in Spark ({cause[:_KEPT]}): see its log, then run the command again."
    )


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return max(pattern.finditer(text), key=lambda match: match.start(), default=None)
