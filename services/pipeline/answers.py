"""What a task answers, one text at a time as a batch of one row, and the answers of a whole job.

By buffers: whatever converts a Python or NumPy value to or from Arrow imports pandas where that is
installed, which takes longer than many a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from services.pipeline.job_errors import job_error

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def answer(column: str, text: str) -> pa.RecordBatch:
    """A batch of one row, which has *text* in the *column*."""
    import pyarrow as pa

    data = text.encode()
    places = np.array([0, len(data)], np.int32)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(data)]
    return pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.string(), 1, buffers)], [column])


Worker = Callable[[Iterator[Any]], Iterator[Any]]
"""What is done with the batches of rows of a task."""


def collected(rows: DataFrame, worker: Worker, column: str, doing: str) -> list[str]:
    """What *worker* makes of *rows*: the text *column* of what it yields.

    Of attempts that failed nothing is returned.

    Raises:
        StorageError: a worker could not read or write a file.
        PipelineError: anything else that ended the job.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        answers = rows.mapInArrow(worker, f"{column} string").collect()
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise job_error(str(error), doing) from error
    return [str(answer[column]) for answer in answers]
