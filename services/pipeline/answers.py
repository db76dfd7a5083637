"""What a task answers, one text at a time as a batch of one row, and what it is given.

By buffers: whatever converts a Python or NumPy value to or from Arrow imports pandas where that is
installed, which takes longer than many a task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def answer(column: str, text: str) -> pa.RecordBatch:
    """A batch of one row, which has *text* in the *column*."""
    import pyarrow as pa

    data = text.encode()
    places = np.array([0, len(data)], np.int32)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(data)]
    return pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.string(), 1, buffers)], [column])


def sizes(column: pa.StringArray) -> NDArray[np.int32]:
    """Bytes of each text of a *column* without nulls."""
    _, places, _ = column.buffers()
    return np.diff(np.frombuffer(places, np.int32)[column.offset : column.offset + len(column) + 1])


def ints(column: pa.Int32Array) -> NDArray[np.int32]:
    """The numbers of a *column* without nulls, where they lie."""
    _, data = column.buffers()
    return np.frombuffer(data, np.int32)[column.offset : column.offset + len(column)]
