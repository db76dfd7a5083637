"""Record batches of message format v2, encoded by another library and decoded here."""

import json
import struct
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from breakglass.services import record_batches as module
from breakglass.services.errors import MalformedMessage
from breakglass.services.record_batches import (
    Compression,
    ControlType,
    Fetched,
    Marker,
    Record,
    RecordBatch,
    TimestampType,
    message_header,
    message_records,
    read_headers,
)
from tests.kit.batches import decode_batches
from tests.unit.topic_backup.batch_bytes import (
    CONTROL,
    LOG_APPEND,
    TRANSACTIONAL,
    batch,
    compress,
    control_record,
    encoded,
    sealed,
)
from tests.unit.topic_backup.older_bytes import broken, field, message_set, with_crc, wrapped
from tests.unit.topic_backup.older_bytes import sealed as sealed_message
from tests.unit.topic_backup.shapes import contents, plain, run

ON_BROKER = "b2, orders-3"
CRC_AT = 17
COUNT_AT = 57

codecs = pytest.mark.parametrize("codec", Compression)
header_texts = st.lists(st.tuples(st.text(max_size=9).map(str.encode), contents), max_size=4)


@st.composite
def broker_records(draw: st.DrawFn) -> list[Record]:
    """Records of one batch; compaction may have left holes between them."""
    base = draw(st.integers(0, 2**40))
    deltas = draw(st.lists(st.integers(0, 10_000), min_size=1, max_size=8, unique=True).map(sorted))
    stamp = draw(st.integers(-1, 2**44))
    return [
        Record(
            base + delta,
            TimestampType.CREATE,
            stamp + draw(st.integers(-(2**40), 2**40)),
            draw(contents),
            draw(contents),
            tuple(draw(header_texts)),
        )
        for delta in deltas
    ]


def decoded(data: bytes) -> list[RecordBatch]:
    return list(decode_batches(data, ON_BROKER))


def with_payload(payload: bytes, *, count: int, codec: int = 0, last: int = 100) -> bytes:
    """A batch whose header and CRC are right and whose records are *payload*."""
    return sealed(0, len(payload), 1, 2, 0, codec, last, 0, 0, -1, -1, -1, count, payload=payload)


@given(broker_records(), st.sampled_from(Compression))
def test_records_are_decoded_as_they_were_encoded(
    records: list[Record], codec: Compression
) -> None:
    data = batch(records, compression=codec, base_offset=max(0, records[0].offset - 3))
    (one,) = decoded(data)
    assert list(one.records) == records
    assert one.header.compression == codec


def test_snappy_is_also_read_without_framing() -> None:
    payload = bytes(cramjam.snappy.compress_raw(encoded(run(0, 3), 0)))
    (one,) = decoded(with_payload(payload, count=3, codec=Compression.SNAPPY))
    assert [record.offset for record in one.records] == [0, 1, 2]


def test_everything_of_the_header_is_told() -> None:
    data = batch(
        run(100, 103), last_offset=105, epoch=7, flags=TRANSACTIONAL, producer=(4000, 9, 2**31 - 2)
    )
    (one,) = decoded(data)
    header = one.header
    assert (header.base_offset, header.last_offset, header.next_offset) == (100, 105, 106)
    assert (header.leader_epoch, header.count, header.size) == (7, 3, len(data))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 9, 2**31 - 2)
    assert (header.transactional, header.control, one.marker) == (True, False, None)
    assert header.crc == int.from_bytes(data[CRC_AT : CRC_AT + 4])


def test_under_log_append_time_every_record_has_the_time_of_the_batch() -> None:
    (one,) = decoded(batch(run(0, 3), flags=LOG_APPEND, max_timestamp=77))
    assert {(record.timestamp_type, record.timestamp) for record in one.records} == {
        (TimestampType.LOG_APPEND, 77)
    }


def test_header_keys_that_are_no_text_are_kept() -> None:
    payload = encoded([plain(0)._replace(headers=((b"xy", b"1"),))], 0).replace(b"xy", b"\xff\xfe")
    (one,) = decoded(with_payload(payload, count=1))
    assert one.records[0].headers == ((b"\xff\xfe", b"1"),)


@pytest.mark.parametrize(
    ("kind", "marker"),
    [
        (0, Marker(ControlType.ABORT, 3)),
        (1, Marker(ControlType.COMMIT, 3)),
        (2, Marker(ControlType.LEADER_CHANGE, None)),
        (99, Marker(ControlType.UNKNOWN, None)),
        (-1, Marker(ControlType.UNKNOWN, None)),
    ],
)
def test_a_control_batch_says_what_it_is(kind: int, marker: Marker) -> None:
    (one,) = decoded(batch([control_record(5, kind)], flags=CONTROL | TRANSACTIONAL))
    assert (one.header.control, one.marker) == (True, marker)


def test_a_batch_that_compaction_emptied_still_has_its_offsets() -> None:
    (one,) = decoded(batch([], base_offset=10, last_offset=14, flags=CONTROL))
    assert (one.records, one.marker, one.header.next_offset) == ((), None, 15)


class TestEndOfTheFetchedBytes:
    TWO = batch(run(0, 3)) + batch(run(3, 6))

    def test_a_batch_that_is_cut_is_left_for_the_next_fetch(self) -> None:
        assert read_headers(self.TWO, ON_BROKER).cut_bytes == 0
        for cut in range(1, len(self.TWO) // 2):
            data = self.TWO[:-cut]
            assert [one.header.base_offset for one in decoded(data)] == [0]
            fetched = read_headers(data, ON_BROKER)
            assert fetched.cut_bytes == len(self.TWO) // 2 - cut
            assert fetched.cut_batch == (len(self.TWO) // 2 if fetched.cut_bytes >= 12 else None)


class TestHostile:
    @pytest.mark.parametrize("headers", [False, True])
    def test_s28_records_of_a_bomb_take_no_more_memory_than_a_batch_may(
        self, headers: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Compressed, a million records of seven bytes are a few kilobytes."""
        one = run(0, 1)[0]
        made = [one._replace(headers=((b"", None),) * 200)] if headers else run(0, 100)
        data = batch(made, compression=Compression.GZIP)
        assert len(decoded(data)[0].records) == len(made)
        monkeypatch.setattr(module, "MAX_DECODED_BYTES", 15_000)
        with pytest.raises(MalformedMessage):
            decoded(data)

    @pytest.mark.parametrize(
        ("at", "content"),
        [
            *((16, bytes([magic])) for magic in (0, 1, 3, 255)),
            *((8, struct.pack(">i", length)) for length in (-1, 0, 48, -(2**31))),
            *((COUNT_AT, struct.pack(">i", count)) for count in (-1, 4, 2**31 - 1)),
        ],
    )
    def test_a_format_a_length_or_a_count_that_cannot_be_is_refused(
        self, at: int, content: bytes
    ) -> None:
        data = batch(run(0, 3))
        with pytest.raises(MalformedMessage):
            decoded(data[:at] + content + data[at + len(content) :])

    @pytest.mark.parametrize("codec", [*list(Compression)[1:], 5, 6, 7])
    def test_garbage_in_place_of_compressed_records_is_refused(self, codec: int) -> None:
        with pytest.raises(MalformedMessage):
            decoded(with_payload(b"no codec wrote this", count=1, codec=codec))

    @pytest.mark.parametrize("codec", list(Compression)[1:])
    def test_a_bomb_goes_off_below_its_limit(self, codec: Compression) -> None:
        """8 MB of zeros in less than 1: refused, with no more memory used than the limit."""
        data = with_payload(compress(codec, bytes(8_000_000)), count=1, codec=codec)
        for counted in (False, True):  # The first time imports the codecs.
            if counted:
                tracemalloc.start()
            with pytest.raises(MalformedMessage):
                list(decode_batches(data, ON_BROKER, max_batch_bytes=1_000_000))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1_000_000 * 2 + 2 * len(data)
        records = [plain(0, value=bytes(50_000))]
        limit = len(encoded(records, 0))
        data = batch(records, compression=codec)
        assert len(list(decode_batches(data, ON_BROKER, max_batch_bytes=limit))) == 1
        with pytest.raises(MalformedMessage):
            list(decode_batches(data, ON_BROKER, max_batch_bytes=limit - 1))


GOLDEN = Path(__file__).parents[1] / "golden" / "older_messages"
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
message_codecs = pytest.mark.parametrize(
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


@message_codecs
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


@message_codecs
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
    data = sealed_message(1, 1, int(Compression.GZIP), 0, None, compress(Compression.GZIP, content))
    assert [record.offset for record in records_of(data)] == [0, 1]


@pytest.mark.parametrize("size", [0, 1, 100, 70_000])
def test_the_checksum_of_lz4_may_be_wrong_in_format_0_alone(size: int) -> None:
    record = run(0, 1)[0]._replace(value=b"v" * size)
    frame = compress(Compression.LZ4, message_set([record], 1))
    assert records_of(sealed_message(0, 0, 3, 0, None, broken(frame)))[0].value == record.value
    with pytest.raises(MalformedMessage):
        records_of(sealed_message(0, 1, 3, 0, None, broken(frame)))


def test_the_head_of_an_lz4_frame_may_say_how_large_its_content_is() -> None:
    content = message_set(run(0, 3), 0)
    frame = compress(Compression.LZ4, content)
    sized = frame[:4] + bytes([frame[4] | 0x08, frame[5]]) + struct.pack("<q", len(content))
    data = sealed_message(2, 0, int(Compression.LZ4), 0, None, sized + b"\0" + frame[7:])
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
    data = sealed_message(1, 1, 1, 0, None, compress(Compression.GZIP, bytes(content)))
    with pytest.raises(MalformedMessage):
        records_of(data)


ZERO = bytes(8)
GZIP = int(Compression.GZIP)
FOUR = run(0, 4)


def packed(content: bytes) -> bytes:
    return compress(Compression.GZIP, content)


LIES = {
    "a field claims more than there is": with_crc(0, b"\1\0" + ZERO + field(b"k") + b"\0\0\0\x09v"),
    "a field claims -2 bytes": with_crc(0, b"\1\0" + ZERO + b"\xff\xff\xff\xfe" + field(b"v")),
    "a byte is left": with_crc(0, b"\1\0" + ZERO + field(b"k") + field(b"v") + b"x"),
    "a field is missing": with_crc(0, b"\0\0" + field(b"k" * 9)),
    "compressed without a value": sealed_message(3, 1, GZIP, 0, None, None),
    "no messages within": sealed_message(3, 1, GZIP, 0, None, packed(b"")),
    "garbage": sealed_message(3, 1, GZIP, 0, None, b"no codec wrote this"),
    "no such codec": sealed_message(3, 1, 4, 0, None, b"x" * 9),
    "one within that is too small": sealed_message(
        3, 1, GZIP, 0, None, packed(b"\0" * 11 + b"\5" + b"x" * 40)
    ),
    "compressed twice": sealed_message(
        3, 1, GZIP, 0, None, packed(wrapped(run(0, 4), 1, Compression.GZIP))
    ),
    "offsets beyond those of format 1": sealed_message(
        1, 1, GZIP, 0, None, packed(message_set(FOUR, 1))
    ),
    "offsets beyond those of format 0": sealed_message(
        1, 0, GZIP, 0, None, packed(message_set(FOUR, 0))
    ),
    "offsets that do not rise": sealed_message(
        9, 1, GZIP, 0, None, packed(message_set([*run(0, 2), *run(0, 2)], 1))
    ),
    "format 2 within": sealed_message(3, 1, GZIP, 0, None, packed(with_crc(0, b"\2\0" + ZERO * 3))),
    "smaller than any": ZERO + b"\0\0\0\x0d" + bytes(30),
}


@pytest.mark.parametrize("data", LIES.values(), ids=LIES)
def test_messages_that_lie_about_themselves_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        records_of(data)
