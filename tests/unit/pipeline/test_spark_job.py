"""Jobs of Spark: none without work, and what is told of those that fail."""

from collections.abc import Iterator
from typing import NoReturn

import pytest

from breakglass.services.errors import DiskFull, PipelineError, StorageError
from breakglass.services.pipeline.spark_job import answers, job_error


class NoContext:
    """A context that no job may be given to."""

    def parallelize(self, *_: object) -> NoReturn:
        raise AssertionError("a job was run")


def test_no_job_runs_for_a_topic_without_records() -> None:
    def work(items: object) -> Iterator[str]:
        yield str(items)

    assert answers(NoContext(), [], 0, work, "restoring") == []  # type: ignore[arg-type]


TRACE = "Traceback (most recent call last):\n"
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
ERRORS = "breakglass.services.errors"
FULL = "OSError: [Errno 28] No space left on device"
SLOW = f"{ERRORS}.TimedOut: b1 is slow."
OURS = "An exception was thrown from the Python worker:\nservices.errors.PipelineError: try it.\n"


def raised(first: str, last: str) -> str:
    return f"{TRACE}{first}\n{DURING}{TRACE}{last}\n\n\tat org.apache.spark.X.run(X.scala:1)\n"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (f"PythonException: ...\n{FULL}\nmore", StorageError, "No space left on device"),
        (OURS, PipelineError, "try it."),
        (raised(SLOW, f"{ERRORS}.LogTruncated: it was cut."), PipelineError, "it was cut."),
        (raised(FULL, f"{ERRORS}.DiskFull: /b: free some."), DiskFull, "/b: free some."),
        (raised(SLOW, "OSError: [Errno 5] Input/output error"), StorageError, "Input/output"),
        (raised("KeyError: 'x'", "MemoryError: too much"), PipelineError, "MemoryError: too much"),
        ("", PipelineError, "(no reason given)"),
    ],
)
def test_of_errors_that_led_to_one_another_the_last_one_is_told(
    text: str, kind: type[Exception], words: str
) -> None:
    error = job_error(text, "copying topic t")
    assert type(error) is kind
    assert str(error).startswith("copying topic t")
    assert words in str(error)
