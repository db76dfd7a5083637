"""Messages of formats 0 and 1 are read as Kafka's own clients read them, or refused by name."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from breakglass.services.errors import MalformedMessage
from breakglass.services.topic_backup.batches import Fetched, read_headers
from breakglass.services.topic_backup.compression import Compression
from breakglass.services.topic_backup.older_messages import message_header, message_records
from breakglass.services.topic_backup.record import Record, TimestampType
from tests.unit.topic_backup.batch_bytes import batch, compress
from tests.unit.topic_backup.older_bytes import (
    broken,
    field,
    message_set,
    sealed,
    with_crc,
    wrapped,
)
from tests.unit.topic_backup.shapes import contents, run

ON_BROKER = "b2, orders-3"
GOLDEN = Path(__file__).parents[2] / "golden" / "older_messages"
TIMES = json.loads((GOLDEN / "times.json").read_text())
KINDS = {
    "NoTimestampType": TimestampType.NONE,
    "CreateTime": TimestampType.CREATE,
    "LogAppendTime": TimestampType.LOG_APPEND,
}
SENT = [
    (b"k0", b"the first of five"),
    (None, b"a" * 40),
    (b"", b""),
    (b"k3", None),
    (b"k4", b"the last of five"),
]

magics = pytest.mark.parametrize("magic", [0, 1])
codecs = pytest.mark.parametrize(
    "codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4], ids=lambda one: one.name
)


def headers_of(data: bytes) -> Fetched:
    return read_headers(data, ON_BROKER, message_header)


def records_of(data: bytes) -> list[Record]:
    return [
        record
        for header in headers_of(data).headers
        for record in message_records(data, header, ON_BROKER)
    ]


def unstamped(records: Sequence[Record]) -> list[Record]:
    """The *records* as format 0 holds them."""
    return [
        record._replace(timestamp_type=TimestampType.NONE, timestamp=None) for record in records
    ]


def as_held(records: Sequence[Record], magic: int) -> list[Record]:
    return list(records) if magic == 1 else unstamped(records)


@st.composite
def rising(draw: st.DrawFn) -> list[Record]:
    """Records without headers, perhaps with holes between their offsets."""
    steps = draw(st.lists(st.integers(1, 5), min_size=1, max_size=8))
    offset = draw(st.sampled_from([-1, 41, 2**40]))
    found = []
    for step in steps:
        offset += step
        stamp = draw(st.sampled_from([-1, 0, 5, 1_700_000_000_000, 2**63 - 1]))
        key, value = draw(contents), draw(contents)
        found.append(Record(offset, TimestampType.CREATE, stamp, key, value))
    return found


@pytest.mark.parametrize("name", sorted(TIMES))
def test_logs_of_an_old_broker_are_read_as_its_own_tool_reads_them(name: str) -> None:
    found = records_of((GOLDEN / f"{name}.log").read_bytes())
    times = [(record.offset, record.timestamp_type, record.timestamp) for record in found]
    assert times == [
        (offset, KINDS[kind], None if kind == "NoTimestampType" else stamp)
        for offset, kind, stamp in TIMES[name]
    ]
    assert [(record.key, record.value) for record in found] == SENT * 2


@given(records=rising(), magic=st.sampled_from([0, 1]), gzip=st.booleans())
def test_messages_are_read_as_kafka_python_reads_them(
    records: list[Record], magic: int, gzip: bool
) -> None:
    data = wrapped(records, magic, Compression.GZIP) if gzip else message_set(records, magic)
    memory = MemoryRecords(data)
    theirs = []
    while (found := memory.next_batch()) is not None:
        theirs += [(one.offset, one.timestamp, one.key, one.value) for one in found]
    ours = [
        (record.offset, record.timestamp, record.key, record.value) for record in records_of(data)
    ]
    assert ours == theirs
    assert records_of(data) == as_held(records, magic)


@codecs
@magics
def test_what_is_compressed_is_read_with_the_offsets_of_the_log(
    magic: int, codec: Compression
) -> None:
    records = [*run(70, 73), *run(75, 76)]
    data = wrapped(records, magic, codec)
    assert records_of(data) == as_held(records, magic)
    (header,) = headers_of(data).headers
    assert (header.base_offset, header.last_offset, header.count) == (70, 75, 4)
    assert (header.leader_epoch, header.producer_id, header.magic) == (-1, -1, magic)


@codecs
def test_under_log_append_time_each_record_has_the_time_of_the_whole_message(
    codec: Compression,
) -> None:
    found = records_of(wrapped(run(0, 3), 1, codec, append_ms=77))
    stamps = {(record.timestamp_type, record.timestamp) for record in found}
    assert stamps == {(TimestampType.LOG_APPEND, 77)}


def test_messages_of_both_formats_and_batches_lie_in_one_fetch() -> None:
    data = wrapped(run(0, 3), 0, Compression.LZ4) + message_set(run(3, 5), 1) + batch(run(5, 9))
    found = [
        (header.magic, header.base_offset, header.next_offset)
        for header in headers_of(data).headers
    ]
    assert found == [(0, 0, 3), (1, 3, 4), (1, 4, 5), (2, 5, 9)]


@magics
def test_a_message_whose_end_is_cut_off_is_no_error(magic: int) -> None:
    first, second = message_set(run(0, 1), magic), message_set(run(1, 2), magic)
    for kept in range(1, len(second)):
        fetched = headers_of(first + second[:kept])
        assert [header.base_offset for header in fetched.headers] == [0]
        assert fetched.cut_bytes == kept


def test_a_message_within_whose_end_is_missing_is_passed_over_as_by_kafkas_clients() -> None:
    content = message_set(run(0, 3), 1)[:-1]
    data = sealed(1, 1, int(Compression.GZIP), 0, None, compress(Compression.GZIP, content))
    assert [record.offset for record in records_of(data)] == [0, 1]


@pytest.mark.parametrize("size", [0, 1, 100, 70_000])
def test_the_checksum_of_lz4_may_be_wrong_in_format_0_alone(size: int) -> None:
    record = run(0, 1)[0]._replace(value=b"v" * size)
    frame = compress(Compression.LZ4, message_set([record], 1))
    assert records_of(sealed(0, 0, 3, 0, None, broken(frame)))[0].value == record.value
    with pytest.raises(MalformedMessage):
        records_of(sealed(0, 1, 3, 0, None, broken(frame)))


def test_the_head_of_an_lz4_frame_may_say_how_large_its_content_is() -> None:
    content = message_set(run(0, 3), 0)
    frame = compress(Compression.LZ4, content)
    sized = frame[:4] + bytes([frame[4] | 0x08, frame[5]]) + struct.pack("<q", len(content))
    data = sealed(2, 0, int(Compression.LZ4), 0, None, sized + b"\0" + frame[7:])
    assert records_of(data) == unstamped(run(0, 3))


@pytest.mark.parametrize("compressed", [False, True])
def test_a_flipped_bit_is_told_by_the_crc(compressed: bool) -> None:
    """Of offset and size no CRC says anything: brokers change them."""
    one = wrapped(run(0, 1), 1, Compression.GZIP) if compressed else message_set(run(0, 1), 1)
    for at in range(12, len(message_set(run(0, 1), 1))):
        data = bytearray(one + message_set(run(1, 2), 1))
        data[at] ^= 0x40
        with pytest.raises(MalformedMessage, match=ON_BROKER):
            records_of(bytes(data))


def test_a_damaged_message_within_a_sound_one_is_told_by_its_own_crc() -> None:
    content = bytearray(message_set(run(0, 2), 1))
    content[-1] ^= 1
    data = sealed(1, 1, 1, 0, None, compress(Compression.GZIP, bytes(content)))
    with pytest.raises(MalformedMessage):
        records_of(data)


ZERO = bytes(8)
GZIP = int(Compression.GZIP)
FOUR = run(0, 4)
NOT_RISING = [*run(0, 2), *run(0, 2)]


def packed(content: bytes) -> bytes:
    return compress(Compression.GZIP, content)


LIES = {
    "a field claims more than there is": with_crc(0, b"\1\0" + ZERO + field(b"k") + b"\0\0\0\x09v"),
    "a field claims -2 bytes": with_crc(0, b"\1\0" + ZERO + b"\xff\xff\xff\xfe" + field(b"v")),
    "a byte is left": with_crc(0, b"\1\0" + ZERO + field(b"k") + field(b"v") + b"x"),
    "a field is missing": with_crc(0, b"\0\0" + field(b"k" * 9)),
    "compressed without a value": sealed(3, 1, GZIP, 0, None, None),
    "no messages within": sealed(3, 1, GZIP, 0, None, packed(b"")),
    "garbage": sealed(3, 1, GZIP, 0, None, b"no codec wrote this"),
    "no such codec": sealed(3, 1, 4, 0, None, b"x" * 9),
    "one within that is too small": sealed(
        3, 1, GZIP, 0, None, packed(b"\0" * 11 + b"\5" + b"x" * 40)
    ),
    "compressed twice": sealed(
        3, 1, GZIP, 0, None, packed(wrapped(run(0, 4), 1, Compression.GZIP))
    ),
    "offsets beyond those of format 1": sealed(1, 1, GZIP, 0, None, packed(message_set(FOUR, 1))),
    "offsets beyond those of format 0": sealed(1, 0, GZIP, 0, None, packed(message_set(FOUR, 0))),
    "offsets that do not rise": sealed(9, 1, GZIP, 0, None, packed(message_set(NOT_RISING, 1))),
    "format 2 within": sealed(3, 1, GZIP, 0, None, packed(with_crc(0, b"\2\0" + ZERO * 3))),
    "smaller than any": ZERO + b"\0\0\0\x0d" + bytes(30),
}


@pytest.mark.parametrize("data", LIES.values(), ids=LIES)
def test_messages_that_lie_about_themselves_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        records_of(data)
