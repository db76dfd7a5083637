"""The codec of one record: both ways, and against bytes that lie."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.topic_backup.record import (
    MAX_HEADERS,
    NeedMore,
    Record,
    TimestampType,
    UnreadableRecord,
    decode,
    encode,
)
from tests.unit.topic_backup.shapes import plain, record

PLAIN = encode(plain(7))
KEY_LENGTH_AT = 20
VALUE_LENGTH_AT = 27
HEADER_COUNT_AT = 36


def with_int32(content: bytes, at: int, value: int) -> bytes:
    """*content* with the number at *at* replaced."""
    return content[:at] + struct.pack(">i", value) + content[at + 4 :]


@given(record())
def test_what_was_encoded_is_decoded_the_same(one: Record) -> None:
    content = encode(one)
    assert decode(content, 0, len(content)) == (one, len(content))


@given(record(), st.binary(max_size=9), st.binary(max_size=9))
def test_a_record_is_found_where_it_starts(one: Record, before: bytes, after: bytes) -> None:
    content = before + encode(one) + after
    assert decode(content, len(before), len(content)) == (one, len(content) - len(after))


@given(record(), st.data())
def test_a_record_cut_anywhere_is_torn(one: Record, data: st.DataObject) -> None:
    content = encode(one)
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    with pytest.raises(UnreadableRecord) as caught:
        decode(cut, 0, len(cut))
    assert caught.value.torn


@given(record(), st.data())
def test_a_record_of_which_a_part_is_loaded_asks_for_more(one: Record, data: st.DataObject) -> None:
    content = encode(one)
    loaded = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(NeedMore) as caught:
        decode(content[:loaded], 0, len(content))
    assert loaded < caught.value.size <= len(content)


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (8, 2, "a timestamp type cannot be 2"),
        (8, -3, "a timestamp type cannot be -3"),
        (KEY_LENGTH_AT, -2, "the key cannot be -2 bytes long"),
        (VALUE_LENGTH_AT, -(2**31), "the value cannot be -2147483648 bytes long"),
        (HEADER_COUNT_AT, -1, "there cannot be -1 headers"),
        (HEADER_COUNT_AT, MAX_HEADERS + 1, f"there cannot be {MAX_HEADERS + 1} headers"),
    ],
)
def test_a_number_that_cannot_be_is_refused_with_its_place(
    at: int, value: int, reason: str
) -> None:
    content = with_int32(PLAIN, at, value)
    with pytest.raises(UnreadableRecord, match=reason) as caught:
        decode(content, 0, len(content))
    assert (caught.value.at, caught.value.torn) == (at, False)


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (KEY_LENGTH_AT, 2**31 - 1, "the key goes 2147483631 bytes past the end"),
        (VALUE_LENGTH_AT, 10, "the value goes 1 bytes past the end"),
        (HEADER_COUNT_AT, 1000, "the 1000 headers goes 8000 bytes past the end"),
    ],
)
def test_a_length_past_the_end_is_refused_before_anything_is_read(
    at: int, value: int, reason: str
) -> None:
    content = with_int32(PLAIN, at, value)
    with pytest.raises(UnreadableRecord, match=reason):
        decode(content, 0, len(content))


def test_a_negative_offset_is_refused() -> None:
    content = struct.pack(">q", -1) + PLAIN[8:]
    with pytest.raises(UnreadableRecord, match="an offset cannot be -1"):
        decode(content, 0, len(content))


def test_a_null_header_key_is_refused() -> None:
    one = plain(0)._replace(headers=((b"", None),))
    content = encode(one)
    with pytest.raises(UnreadableRecord, match="a header key cannot be null"):
        decode(with_int32(content, HEADER_COUNT_AT + 4, -1), 0, len(content))


def test_a_record_over_the_limit_of_the_reader_is_refused() -> None:
    content = encode(plain(0, value=bytes(100)))
    with pytest.raises(UnreadableRecord, match="over the limit of this reader"):
        decode(content, 0, len(content), max_bytes=100)


@pytest.mark.parametrize("kind", [TimestampType.CREATE, TimestampType.LOG_APPEND])
def test_a_stamped_record_needs_a_timestamp(kind: TimestampType) -> None:
    with pytest.raises(ValueError, match=kind.name):
        encode(Record(0, kind, None, None, None))


@pytest.mark.parametrize("kind", [TimestampType.NONE, TimestampType.CREATE_NULL])
def test_a_record_without_a_stamp_must_not_have_a_timestamp(kind: TimestampType) -> None:
    with pytest.raises(ValueError, match=kind.name):
        encode(Record(0, kind, 1, None, None))


def test_create_time_with_timestamp_minus_one_is_written_as_it_is() -> None:
    """A producer's "no timestamp" reaches consumers as create time -1, and the file as that."""
    content = encode(plain(0)._replace(timestamp=-1))
    assert content[8:20] == bytes.fromhex("00000000 ffffffffffffffff")
