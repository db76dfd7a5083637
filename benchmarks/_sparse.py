"""Partitions of any size that take little room: indexes are whole, records are where one looks.

What nobody looks at is a hole in a sparse file. A program that read more than it has to would
come upon zeros, and show damage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from kafka.record.default_records import DefaultRecordBatchBuilder

from breakglass.services.record_batches import BATCH_HEADER, Record, TimestampType
from breakglass.services.topic_backup.layout import records_name, segment_index_name, segment_prefix
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, MAGIC

RECORD_BYTES = 1000
RECORDS_A_SEGMENT = 1_000_000
BATCH = 16
"""Records in one batch of a log."""
AROUND = 3_000
"""Records that are there on either side of where somebody looks."""
BEGAN_MS = 1_700_000_000_000

Spans = list[tuple[int, int]]


def sparse_backup(folder: Path, records: int, looked_at: Iterable[int]) -> None:
    """A partition 0 of so many records as Kafka Backup writes it, without a manifest."""
    folder.mkdir(parents=True)
    size = len(encode(_record(0)))
    for start in range(0, records, RECORDS_A_SEGMENT):
        prefix = segment_prefix(0, start)
        count = min(RECORDS_A_SEGMENT, records - start)
        _write_index(folder / segment_index_name(prefix), start, count, size)
        with (folder / records_name(prefix)).open("wb") as file:
            file.write(MAGIC)
            file.truncate(FIRST_POSITION + count * size)
            for first, last in _spans(looked_at, start, count):
                file.seek(FIRST_POSITION + (first - start) * size)
                file.write(b"".join(encode(_record(number)) for number in range(first, last)))


def _write_index(path: Path, start: int, count: int, size: int) -> None:
    entries = np.empty((count, 3), ">i8")
    numbers = np.arange(count)
    entries[:, 0] = start + numbers
    entries[:, 1] = FIRST_POSITION + numbers * size
    entries[:, 2] = size
    with path.open("wb") as file:
        file.write(MAGIC)
        file.write(entries.tobytes())


def sparse_log(folder: Path, records: int, looked_at: Iterable[int]) -> None:
    """A broker's log folder of so many records, an index entry for each batch."""
    folder.mkdir(parents=True)
    template = _batch()
    per_segment = RECORDS_A_SEGMENT // BATCH * BATCH
    for start in range(0, records, per_segment):
        count = min(per_segment, records - start) // BATCH
        path = folder / f"{start:020}.log"
        numbers = np.arange(1, count)
        entries = np.stack([numbers * BATCH + BATCH - 1, numbers * len(template)], 1)
        path.with_suffix(".index").write_bytes(entries.astype(">i4").tobytes())
        with path.open("wb") as file:
            file.truncate(count * len(template))
            for first, last in _spans(looked_at, start, count * BATCH):
                number = (first - start) // BATCH
                file.seek(number * len(template))
                for base in range(start + number * BATCH, last, BATCH):
                    # The offset is in no checksum.
                    file.write(base.to_bytes(8) + template[8:])


def _batch() -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 2**31)
    for number in range(BATCH):
        one = _record(number)
        builder.append(number, one.timestamp, one.key, one.value, [])
    content = bytearray(builder.build())
    assert len(content) > BATCH_HEADER.size
    return bytes(content)


def _record(offset: int) -> Record:
    value = b'{"id": "%010d", "text": "' % offset
    value += b"x" * (RECORD_BYTES - len(value) - 2) + b'"}'
    return Record(offset, TimestampType.CREATE, BEGAN_MS + offset, b"key-%010d" % offset, value)


def _spans(looked_at: Iterable[int], start: int, count: int) -> Iterator[tuple[int, int]]:
    """Where records are: around each place, and at both ends of the segment."""
    places = {start, start + count - 1, *looked_at}
    for place in sorted(places):
        first, last = max(start, place - AROUND), min(start + count, place + AROUND)
        if first < last:
            yield first, last
