"""What of a stored record no producer can keep (B9): whether brokers stamped it, or nobody did.

Everything else of a record is in its batch as it was stored: bytes of header keys that are no
UTF-8, timestamps of before 1970, nulls.
"""

from __future__ import annotations

import numpy as np

from services.pipeline.batches.varints import Longs
from services.topic_backup.record import Record, TimestampType, decode, encode

NO_TIMESTAMP = -1
LOG_APPEND_TIME = "log append time"
"""Stamped by the broker then; restored as create time."""
WITHOUT_TIMESTAMP = "no timestamp"


def declared_of(types: Longs) -> dict[str, int]:
    """How many records of these timestamp *types* cannot be kept, by what is different of them."""
    stamped = int(np.count_nonzero(types == TimestampType.LOG_APPEND))
    without = int(np.count_nonzero(types < TimestampType.CREATE))
    found = {LOG_APPEND_TIME: stamped, WITHOUT_TIMESTAMP: without}
    return {what: count for what, count in found.items() if count}


def as_restored(record: Record) -> Record:
    """*record* as it is in a topic after its restore: with what cannot be kept."""
    timestamp = NO_TIMESTAMP if record.timestamp is None else record.timestamp
    return record._replace(timestamp_type=TimestampType.CREATE, timestamp=timestamp)


def restored_bytes(data: bytes) -> bytes:
    """The same of one encoded record."""
    record, _ = decode(data, 0, len(data), len(data))
    return encode(as_restored(record))
