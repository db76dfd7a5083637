"""Records taken to be small, until one is not."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from services.pipeline.answers import answer
from services.pipeline.reading import (
    BATCH_RECORDS,
    BATCHES_BYTES,
    LARGE,
    SMALL_RECORD,
    unmeasured,
    while_small,
)

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def batch(*records: str) -> pa.RecordBatch:
    """What a task is given: one that was large is empty."""
    return pa.RecordBatch.from_pydict({"record": list(records)})


def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answers with how many records each batch has, and at the end that it is over."""
    for one in batches:
        yield answer("told", str(len(one)))
    yield answer("told", "over")


def told(*batches: pa.RecordBatch) -> list[str]:
    """What comes of *batches*."""
    return [one.column("told")[0].as_py() for one in while_small(iter(batches), each, "told")]


def test_small_records_are_the_workers() -> None:
    assert told(batch("a", "b"), batch("c")) == ["2", "1", "over"]


def test_once_a_record_is_large_nothing_more_is_said_but_that() -> None:
    assert told(batch("a"), batch("b", "", "c"), batch("d")) == ["1", LARGE]


def test_a_batch_that_was_cut_before_its_large_record_is_small() -> None:
    assert told(batch("", "b").slice(1)) == ["1", "over"]


@pytest.mark.parametrize("cores", [1, 2, 4, 16, 64])
def test_batches_of_small_records_have_room_whatever_the_cores(cores: int) -> None:
    rows = int(unmeasured(cores)[ROWS])
    assert rows * SMALL_RECORD * cores * 2 <= BATCHES_BYTES
    assert rows == BATCH_RECORDS or cores > 4
