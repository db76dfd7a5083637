"""What each producer is given of a record, and what of it is lost (B9)."""

from __future__ import annotations

import pytest

from services.pipeline.restore.values import (
    HEADER_KEY,
    LOG_APPEND_TIME,
    WITHOUT_TIMESTAMP,
    NeedsJava,
    as_restored,
    declared_of,
    easy,
    for_java,
    for_librdkafka,
)
from services.topic_backup.record import Record, TimestampType, encode

CREATE, APPEND = TimestampType.CREATE, TimestampType.LOG_APPEND
PLAIN = Record(3, CREATE, 5, b"k", None, ((b"", b""), (b"a", None), (b"a", b"1")))
STAMPED_0 = PLAIN._replace(timestamp=0)
NUL_KEY = PLAIN._replace(headers=((b"a\x00b", b"x"),))
BEFORE_1970 = PLAIN._replace(timestamp=-5)
NO_UTF8 = PLAIN._replace(headers=((b"\xff", b"x"),))
STAMPLESS = PLAIN._replace(timestamp_type=TimestampType.NONE, timestamp=None)
NULL_STAMP = PLAIN._replace(timestamp_type=TimestampType.CREATE_NULL, timestamp=None)
APPENDED = PLAIN._replace(timestamp_type=APPEND)
NEITHER = NUL_KEY._replace(timestamp=-1)


def test_librdkafka_gets_everything_as_it_was() -> None:
    declared: list[str] = []
    assert for_librdkafka(encode(PLAIN), 0, declared.append) == {
        "key": b"k",
        "value": None,
        "timestamp": 5,
        "headers": [("", b""), ("a", None), ("a", b"1")],
    }
    assert declared == []


@pytest.mark.parametrize("record", [STAMPED_0, NUL_KEY, APPENDED._replace(timestamp=0)])
def test_b9_what_librdkafka_would_change_goes_to_java(record: Record) -> None:
    declared: list[str] = []
    with pytest.raises(NeedsJava):
        for_librdkafka(encode(record), 0, declared.append)
    assert declared == []
    fields = for_java(encode(record), 0, declared.append)
    assert fields is not None
    assert fields.timestamp == record.timestamp
    assert [name.encode() for name, _ in fields.headers] == [name for name, _ in record.headers]


@pytest.mark.parametrize("record", [BEFORE_1970, STAMPLESS, NULL_STAMP, NEITHER])
def test_b9_java_refuses_timestamps_below_0(record: Record) -> None:
    assert for_java(encode(record), 0, print) is None
    assert easy(encode(record), 0)


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (PLAIN, []),
        (STAMPED_0, []),
        (NUL_KEY, []),
        (BEFORE_1970, []),
        (NO_UTF8, [HEADER_KEY]),
        (STAMPLESS, [WITHOUT_TIMESTAMP]),
        (NULL_STAMP, [WITHOUT_TIMESTAMP]),
        (APPENDED, [LOG_APPEND_TIME]),
        (NEITHER, [HEADER_KEY]),
    ],
)
def test_what_cannot_be_kept_is_declared_and_nothing_else(record: Record, what: list[str]) -> None:
    declared: list[str] = []
    if easy(encode(record), 0):
        for_librdkafka(encode(record), 0, declared.append)
    else:
        for_java(encode(record), 0, declared.append)
    assert declared == what
    assert declared_of(record) == what
    assert (as_restored(record) == record) == (what == [])
