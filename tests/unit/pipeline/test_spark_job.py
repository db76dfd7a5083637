"""Jobs of Spark: what is asked without one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from breakglass.services.pipeline.spark_job import answers


class NoContext:
    """A context that no job may be given to."""

    def parallelize(self, *_: object) -> NoReturn:
        raise AssertionError("a job was run")


def test_no_job_runs_for_a_topic_without_records() -> None:
    def work(items: object) -> Iterator[str]:
        yield str(items)

    assert answers(NoContext(), [], 0, work, "restoring") == []  # type: ignore[arg-type]
