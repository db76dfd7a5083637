"""What of a record no producer can keep is declared, and nothing else (B9)."""

from __future__ import annotations

import numpy as np
import pytest

from breakglass.services.pipeline.restore.task import (
    LOG_APPEND_TIME,
    WITHOUT_TIMESTAMP,
    as_restored,
    declared_of,
)
from breakglass.services.topic_backup.record import Record, TimestampType

PLAIN = Record(
    3, TimestampType.CREATE, 5, b"k", None, ((b"", b""), (b"a\x00", None), (b"\xff", b"1"))
)
BEFORE_1970 = PLAIN._replace(timestamp=-5)
STAMPLESS = PLAIN._replace(timestamp_type=TimestampType.NONE, timestamp=None)
NULL_STAMP = PLAIN._replace(timestamp_type=TimestampType.CREATE_NULL, timestamp=None)
APPENDED = PLAIN._replace(timestamp_type=TimestampType.LOG_APPEND)


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (PLAIN, {}),
        (BEFORE_1970, {}),
        (STAMPLESS, {WITHOUT_TIMESTAMP: 1}),
        (NULL_STAMP, {WITHOUT_TIMESTAMP: 1}),
        (APPENDED, {LOG_APPEND_TIME: 1}),
    ],
)
def test_b9_what_cannot_be_kept_is_declared_and_nothing_else(
    record: Record, what: dict[str, int]
) -> None:
    assert declared_of(np.array([record.timestamp_type])) == what
    assert (as_restored(record) == record) == (what == {})


def test_records_are_counted_by_what_is_different_of_them() -> None:
    records = [PLAIN, APPENDED, STAMPLESS, APPENDED, NULL_STAMP]
    types = np.array([record.timestamp_type for record in records])
    assert declared_of(types) == {LOG_APPEND_TIME: 2, WITHOUT_TIMESTAMP: 2}
