"""Record batches of message format v2, encoded by another library and decoded here."""

from __future__ import annotations

import struct
import tracemalloc

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.errors import MalformedMessage
from breakglass.services.topic_backup import batches as module
from breakglass.services.topic_backup.batches import ControlType, Marker, RecordBatch, read_headers
from breakglass.services.topic_backup.compression import Compression
from breakglass.services.topic_backup.record import Record, TimestampType
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
    assert (header.producer_id, header.producer_epoch) == (4000, 9)
    assert (header.transactional, header.control, one.marker) == (True, False, None)
    assert decoded(batch(run(0, 2)))[0].header.sequence(0) is None
    assert header.crc == int.from_bytes(data[CRC_AT : CRC_AT + 4])
    assert [header.sequence(offset) for offset in (100, 101, 102)] == [2**31 - 2, 2**31 - 1, 0]


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
