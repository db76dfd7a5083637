"""Jobs of Spark: none without work, and what is told of those that fail."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("first", "last", "kind", "words"),
    [
        ("breakglass.services.errors.TimedOut: b1 is slow.",
         "breakglass.services.errors.LogTruncated: it was cut.",
         PipelineError, "it was cut."),
        ("OSError: [Errno 28] No space left on device",
         "breakglass.services.errors.DiskFull: /b: free some.",
         DiskFull, "/b: free some."),
        ("breakglass.services.errors.TimedOut: b1 is slow.",
         "OSError: [Errno 5] Input/output error",
         StorageError, "Input/output error; free space or check rights, then run the command "
         "again."),
    ],
)  # fmt: skip
def test_of_errors_that_led_to_one_another_the_last_one_is_told(
    first: str, last: str, kind: type[Exception], words: str
) -> None:
    text = (
        f"Traceback (most recent call last):\n{first}\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        f"Traceback (most recent call last):\n{last}\n\n\tat org.apache.spark.X.run(X.scala:1)\n"
    )
    error = job_error(text, "copying topic t")
    assert (type(error), str(error)) == (kind, f"copying topic t: {words}")
