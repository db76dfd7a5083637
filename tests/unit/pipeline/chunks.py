"""Records as Spark gives them to a task."""

from collections.abc import Sequence

import numpy as np

from breakglass.services.pipeline.part_writer import RecordChunk
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.record import encode


def chunk_of(records: Sequence[Record], partition: int = 0) -> RecordChunk:
    encoded = [encode(record) for record in records]
    return RecordChunk(
        partition,
        np.array([record.offset for record in records], np.int64),
        np.array([record.timestamp for record in records], np.int64),
        np.cumsum([0, *map(len, encoded)], dtype=np.int64),
        memoryview(b"".join(encoded)),
    )
