"""Records of brokers' internal topics, as their schemas have them, and where they are."""

from __future__ import annotations

import struct

import pytest

from breakglass.services.checkpoint.kafka.producer_histories import (
    PREPARE_COMMIT,
    CoordinatorRecord,
    coordinator_record,
)
from breakglass.services.checkpoint.kafka.transaction_logs import log_of
from breakglass.services.errors import MalformedMessage
from breakglass.services.kafka.offsets_topic import OFFSETS_TOPIC
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.record import Record, TimestampType

BEGIN = struct.pack(">qhib", 7, 3, 60_000, PREPARE_COMMIT)
TIMES = struct.pack(">qq", 2, 1)
WANTED = CoordinatorRecord(
    7, PREPARE_COMMIT, frozenset({TopicPartition("ab", 1), TopicPartition("ab", 2)})
)


def record(value: bytes | None) -> Record:
    return Record(5, TimestampType.CREATE, 0, b"", value, ())


def test_a_coordinators_record_of_older_brokers_is_read() -> None:
    logs = struct.pack(">ih2siii", 1, 2, b"ab", 2, 1, 2)
    assert coordinator_record(record(b"\0\0" + BEGIN + logs + TIMES)) == WANTED


def test_a_coordinators_record_with_compact_fields_is_read() -> None:
    # One array, a topic of two letters, two partitions, then a tagged field of three bytes.
    logs = b"\x02" + b"\x03ab" + b"\x03" + struct.pack(">ii", 1, 2) + b"\x01\x05\x03xyz"
    assert coordinator_record(record(b"\0\1" + BEGIN + logs + TIMES + b"\0")) == WANTED


@pytest.mark.parametrize("logs", [b"\0", b"\x01"], ids=["null", "empty"])
def test_a_complete_transaction_has_no_partitions(logs: bytes) -> None:
    found = coordinator_record(record(b"\0\1" + BEGIN + logs + TIMES + b"\0"))
    assert found == CoordinatorRecord(7, PREPARE_COMMIT, frozenset())


def test_a_record_that_removes_an_id_says_nothing() -> None:
    assert coordinator_record(record(None)) is None


@pytest.mark.parametrize("value", [b"", b"\0\1", b"\0\1" + BEGIN + b"\x02\x7f"], ids=str)
def test_a_damaged_record_is_named(value: bytes) -> None:
    with pytest.raises(MalformedMessage, match="offset 5 of __transaction_state"):
        coordinator_record(record(value))


@pytest.mark.parametrize(
    ("key", "number"),
    [
        ("foo", 101_574 % 50),
        ("", 0),
        ("polygenelubricants", 0),
        ("group-of-\u00e9\U0001f600", None),
    ],
)
def test_a_group_is_where_brokers_look_for_it(key: str, number: int | None) -> None:
    # "polygenelubricants".hashCode() is the smallest number, whose absolute value is none.
    found = log_of(key, OFFSETS_TOPIC, 50)
    assert found.topic == OFFSETS_TOPIC
    assert 0 <= found.partition < 50
    assert number in (None, found.partition)
