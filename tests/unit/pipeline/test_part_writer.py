"""What a task reads out of encoded records, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from services.pipeline.part_writer import chunk_of
from services.topic_backup.record import Record, TimestampType, encode

ROOT = Path(__file__).parents[3]
RECORDS = (
    Record(2**40, TimestampType.CREATE, -5, b"key", b"value"),
    Record(2**40 + 3, TimestampType.NONE, None, None, None),
    Record(2**40 + 4, TimestampType.LOG_APPEND, 2**50, b"", b"\xff" * 300, ((b"h", None),)),
)


def batch(*records: Record, partitions: tuple[int, ...] = (3, 3, 3)) -> pa.RecordBatch:
    """The *records* as a task is given them."""
    encoded = pa.array([encode(one) for one in records], pa.binary())
    places, data = encoded.buffers()[1:]
    text = pa.StringArray.from_buffers(len(records), places, data)
    numbers = pa.array(partitions[: len(records)], pa.int32())
    return pa.RecordBatch.from_arrays([numbers, text], ["partition", "record"])


def test_offsets_and_timestamps_are_those_of_the_records() -> None:
    chunk = chunk_of(batch(*RECORDS))
    assert chunk.partition == 3
    assert chunk.offsets.tolist() == [2**40, 2**40 + 3, 2**40 + 4]
    assert chunk.timestamps.tolist() == [-5, -1, 2**50]
    assert bytes(chunk.data) == b"".join(map(encode, RECORDS))


def test_a_batch_that_was_cut_is_read_from_where_it_begins() -> None:
    chunk = chunk_of(batch(*RECORDS).slice(1))
    assert chunk.offsets.tolist() == [2**40 + 3, 2**40 + 4]
    assert chunk.bounds.tolist() == list(np.cumsum([0, *(len(encode(one)) for one in RECORDS[1:])]))


def test_the_smallest_record_can_be_read_alone() -> None:
    chunk = chunk_of(batch(RECORDS[1]))
    assert (chunk.offsets.tolist(), chunk.timestamps.tolist()) == ([2**40 + 3], [-1])


def test_records_of_two_partitions_are_refused() -> None:
    with pytest.raises(ValueError, match="a task reads one partition"):
        chunk_of(batch(*RECORDS, partitions=(3, 3, 4)))


def test_a_task_brings_no_pandas(tmp_path: Path) -> None:
    """Which would cost each of Spark's Python workers more than a second."""
    script = f"""
import sys
from pathlib import Path
import numpy as np
import pyarrow as pa
from services.pipeline.daemon import WANTED
from importlib import import_module
for name in WANTED:
    import_module(name)
from services.pipeline.part_writer import PartTarget, write_parts
from services.pipeline.comparing import compare
from services.topic_backup.folder import LocalFolder
record = bytes.fromhex({encode(RECORDS[1]).hex()!r})
text = [None, pa.py_buffer(np.array([0, len(record)], np.int32)), pa.py_buffer(record)]
number = [None, pa.py_buffer(np.zeros(1, np.int32))]
batch = pa.RecordBatch.from_arrays(
    [pa.Array.from_buffers(pa.string(), 1, text), pa.Array.from_buffers(pa.int32(), 1, number)],
    ["record", "partition"],
)
(part,) = write_parts(iter([batch]), PartTarget(LocalFolder(Path({str(tmp_path)!r})), "run", 1000))
(found,) = compare(iter([batch]), {{}})
print(part.column("part")[0], found.column("found")[0], "pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert '"count": 1' in done.stdout
    assert '"extra": 1' in done.stdout
    assert done.stdout.endswith(" False\n")
