"""A partition's batches are read once each and in order, whatever becomes of its leader and log."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse, ListOffsetsRequest
from kafka.protocol.consumer import ListOffsetsResponse as Offsets

from breakglass.services import patience
from breakglass.services.errors import (
    LogBeginsLater,
    LogTruncated,
    MalformedMessage,
    TimedOut,
    TopicRecreated,
)
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.pipeline.batches import table as contents_module
from breakglass.services.pipeline.batches.reader import (
    BatchReader,
    FetchedBatches,
    chunks_of,
    exactly,
)
from breakglass.services.pipeline.committed_log import READ_COMMITTED
from breakglass.services.pipeline.part_writer import RecordChunk
from breakglass.services.record_batches import Compression, Record, TimestampType
from breakglass.services.topic_backup.record import encode
from tests.kit.fake_cluster import FakeCluster
from tests.kit.fake_metadata import TOPIC_ID
from tests.unit.pipeline.batches.fake_log import ORDERS, TEN, FakeLog, Partition, led_by
from tests.unit.topic_backup.batch_bytes import (
    CONTROL,
    LOG_APPEND,
    LYING,
    TRANSACTIONAL,
    batch,
    control_record,
    encoded,
    sealed,
)
from tests.unit.topic_backup.older_bytes import message_set, wrapped
from tests.unit.topic_backup.shapes import contents, plain, run

OUT_OF_RANGE, NOT_LEADER, NOT_ALLOWED, STORAGE_ERROR, UNKNOWN_TOPIC_ID = 1, 6, 29, 56, 100


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as made:
        made.story.states[ORDERS] = led_by(1)
        yield made


@pytest.fixture
def read(client: ReadClient) -> Callable[..., list[int]]:
    def offsets(
        start: int,
        end: int,
        chunk_bytes: int = TEN,
        topic_id: UUID = TOPIC_ID,
        seconds: float = patience.JOB,
    ) -> Any:
        """The offsets that come of reading ``[start, end)``."""
        reader = BatchReader(client, ORDERS, topic_id, 1, 4, chunk_bytes, seconds)
        return [
            int(offset)
            for fetched in reader.fetches(start, end)
            for chunk in chunks_of(fetched, start, end)
            for offset in chunk.offsets
        ]

    return offsets


Read = Callable[..., list[int]]


def test_each_request_begins_behind_the_last_whole_batch_and_names_its_epoch(
    log: FakeLog, read: Read
) -> None:
    assert read(0, 50, chunk_bytes=2 * TEN + 5) == list(range(50))
    assert [(at, epoch) for at, epoch, _ in log.asked] == [(0, -1), (20, 5), (40, 5)]


@pytest.mark.parametrize(("newest", "epoch"), [(13, 5), (12, 5), (11, -1), (4, -1)])
def test_a_topic_is_asked_for_by_its_id_and_of_older_brokers_by_name(
    cluster: FakeCluster, log: FakeLog, read: Read, newest: int, epoch: int
) -> None:
    cluster.brokers[1].serve(FetchRequest, log.answer, (4, newest))
    assert read(0, 30) == list(range(30))
    requests = [received for received in cluster.brokers[1].received if received.api_key == 1]
    assert {request.version for request in requests} == {newest}
    topic = requests[0].message.topics[0]
    assert (topic.topic_id if newest == 13 else topic.topic) in (TOPIC_ID, "orders")
    assert requests[0].message.isolation_level == READ_COMMITTED
    assert [one for _, one, _ in log.asked] == [-1, epoch, epoch]


def test_a_batch_larger_than_a_fetch_is_asked_for_with_its_size(log: FakeLog, read: Read) -> None:
    assert read(0, 20, chunk_bytes=TEN // 4) == list(range(20))
    assert max(size for _, _, size in log.asked) >= TEN


def test_another_leader_is_asked_from_where_the_first_one_ended(
    cluster: FakeCluster, log: FakeLog, read: Read
) -> None:
    def moved(request: Any) -> Any:
        if request.topics[0].partitions[0].fetch_offset >= 20:
            cluster.story.states[ORDERS] = led_by(2)
            log.first.append({"error_code": NOT_LEADER})
        return log.answer(request)

    cluster.brokers[1].serve(FetchRequest, moved)
    assert read(0, 50) == list(range(50))
    asked = [received.message for received in cluster.brokers[2].received if received.api_key == 1]
    assert [one.topics[0].partitions[0].fetch_offset for one in asked] == [20, 30, 40]


@pytest.mark.parametrize(
    "answer",
    [
        {"error_code": STORAGE_ERROR},
        {"error_code": NOT_LEADER},
        {"last_stable_offset": 0, "records": b""},
    ],
    ids=["storage", "leader", "stable end"],
)
def test_what_passes_is_waited_for(log: FakeLog, read: Read, answer: dict[str, Any]) -> None:
    log.first = [dict(answer), dict(answer)]
    assert read(0, 50) == list(range(50))


@pytest.mark.parametrize(
    "answer",
    [{"last_stable_offset": 3}, {"error_code": STORAGE_ERROR}, None],
    ids=["stable end", "storage", "left out"],
)
def test_what_does_not_pass_is_told_in_time(
    cluster: FakeCluster, log: FakeLog, read: Read, answer: dict[str, Any] | None
) -> None:
    def always(request: Any) -> Any:
        if answer is None:
            return FetchResponse(responses=[])
        log.first = [dict(answer)]
        return log.answer(request)

    cluster.brokers[1].serve(FetchRequest, always)
    with pytest.raises(TimedOut):
        read(3, 50, seconds=0.3)


@pytest.mark.parametrize(
    ("log_start", "error"), [(20, LogBeginsLater), (0, LogTruncated)], ids=["later", "shorter"]
)
def test_an_offset_out_of_range_is_told_by_where_the_log_begins(
    cluster: FakeCluster, log: FakeLog, read: Read, log_start: int, error: type[Exception]
) -> None:
    cluster.brokers[1].serve(ListOffsetsRequest, lambda _: starts_at(log_start))
    log.first = [{"error_code": OUT_OF_RANGE}]
    with pytest.raises(error):
        read(13, 50)


def starts_at(offset: int) -> Any:
    topic_class = Offsets.ListOffsetsTopicResponse
    partition = topic_class.ListOffsetsPartitionResponse(
        partition_index=3, error_code=0, offset=offset, timestamp=-1, leader_epoch=5
    )
    return Offsets(topics=[topic_class(name="orders", partitions=[partition])])


def test_a_log_that_was_cut_back_while_it_was_read_is_not_read_on(
    cluster: FakeCluster, log: FakeLog, read: Read
) -> None:
    def cut(request: Any) -> Any:
        if request.topics[0].partitions[0].last_fetched_epoch == 5:
            end = Partition.EpochEndOffset(epoch=4, end_offset=8)
            log.first.append({"diverging_epoch": end})
        return log.answer(request)

    cluster.brokers[1].serve(FetchRequest, cut)
    with pytest.raises(LogTruncated):
        read(0, 50)


@pytest.mark.parametrize("gone", [True, False], ids=["deleted", "created again"])
def test_a_topic_that_is_not_the_one_any_more_is_not_read(
    cluster: FakeCluster, log: FakeLog, read: Read, gone: bool
) -> None:
    def recreated(request: Any) -> Any:
        log.first.append({"error_code": UNKNOWN_TOPIC_ID})
        del cluster.story.states[ORDERS]
        if not gone:
            cluster.story.states[ORDERS] = replace(led_by(1), topic_id=UUID(int=5))
        return log.answer(request)

    cluster.brokers[1].serve(FetchRequest, recreated)
    with pytest.raises(TopicRecreated):
        read(0, 50)


def test_a_log_whose_rest_was_compacted_away_is_at_its_end(log: FakeLog, read: Read) -> None:
    assert read(0, 55) == list(range(50))


ON_BROKER = "b2, orders-3"
ALL = (0, 2**63 - 1)
ABORT, COMMIT = 0, 1

codecs = pytest.mark.parametrize("codec", Compression)
header_lists = st.lists(st.tuples(st.text(max_size=9).map(str.encode), contents), max_size=4)


def fetched(data: bytes, aborted: Sequence[tuple[int, int]] = ()) -> FetchedBatches:
    return FetchedBatches(3, data, tuple(aborted), ON_BROKER)


def flat(chunks: Sequence[RecordChunk]) -> tuple[bytes, list[int], list[int], list[int]]:
    """Bytes, offsets, timestamps and lengths of all chunks together."""
    return (
        b"".join(bytes(chunk.data) for chunk in chunks),
        [int(offset) for chunk in chunks for offset in chunk.offsets],
        [int(stamp) for chunk in chunks for stamp in chunk.timestamps],
        [
            int(after - before)
            for chunk in chunks
            for before, after in zip(chunk.bounds[:-1], chunk.bounds[1:], strict=True)
        ],
    )


def converted(data: bytes, aborted: Sequence[tuple[int, int]] = ()) -> bytes:
    return flat(list(chunks_of(fetched(data, aborted), *ALL)))[0]


def by_columns_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it fail whatever is left to the decoder of single records."""

    def never(*_: object) -> None:
        raise AssertionError("left to the decoder of single records")

    monkeypatch.setattr("breakglass.services.pipeline.batches.reader.exactly", never)


@st.composite
def fetch(draw: st.DrawFn) -> FetchedBatches:
    """A fetch of batches of every kind, perhaps with aborted transactions, perhaps cut."""
    offset, data, aborted = draw(st.sampled_from([0, 41, 2**40])), b"", []
    for _ in range(draw(st.integers(1, 5))):
        offset += draw(st.integers(0, 3))
        producer = draw(st.sampled_from([-1, 7, 8]))
        owner, flags = (producer, 2, 0), TRANSACTIONAL if producer > 0 else 0
        if producer > 0 and draw(st.booleans()):
            kind = draw(st.sampled_from([ABORT, COMMIT]))
            marker = control_record(offset, kind)
            data += batch([marker], flags=CONTROL | TRANSACTIONAL, producer=owner)
            offset += 1
            continue
        records = draw(some_records(offset))
        last = records[-1].offset + draw(st.integers(0, 2))
        flags |= draw(st.sampled_from([0, LOG_APPEND]))
        codec = draw(st.sampled_from(Compression))
        data += batch(
            records,
            base_offset=offset,
            last_offset=last,
            compression=codec,
            flags=flags,
            producer=owner,
        )
        if producer > 0 and draw(st.booleans()):
            aborted.append((offset, producer))
        offset = last + 1
    cut = draw(st.integers(0, len(data) // 2)) if draw(st.booleans()) else 0
    return fetched(data[: len(data) - cut], aborted)


@st.composite
def some_records(draw: st.DrawFn, base: int) -> list[Record]:
    """Records of one batch, perhaps with holes between them."""
    deltas = draw(st.lists(st.integers(0, 300), min_size=1, max_size=6, unique=True).map(sorted))
    stamp = draw(st.integers(-1, 2**44))
    return [
        Record(
            base + delta,
            TimestampType.CREATE,
            stamp + draw(st.integers(-(2**40), 2**40)),
            draw(contents),
            draw(contents | st.integers(0, 5).map(lambda size: bytes([size]) * (10**size))),
            tuple(draw(header_lists)),
        )
        for delta in deltas
    ]


@given(fetch(), st.data())
def test_every_fetch_is_converted_as_the_decoder_of_single_records_does_it(
    one: FetchedBatches, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        by_columns_alone(patch)
        patch.setattr(contents_module, "WORTHWHILE", data.draw(st.sampled_from([0, 2, 10**9])))
        patch.setattr(contents_module, "CONTENTS_BYTES", data.draw(st.sampled_from([1, 2**25])))
        whole = flat(list(exactly(one, *ALL)))
        assert flat(list(chunks_of(one, *ALL))) == whole
        offsets = [*whole[1], 0]
        start, end = sorted(data.draw(st.tuples(*[st.sampled_from(offsets)] * 2)))
        expected = flat(list(exactly(one, start, end)))
        assert flat(list(chunks_of(one, start, end))) == expected


@pytest.mark.parametrize("at_once", [0, 10**9], ids=["side by side", "in turn"])
@codecs
def test_no_ordinary_record_is_left_to_the_decoder_of_single_records(
    codec: Compression, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_columns_alone(monkeypatch)
    monkeypatch.setattr(contents_module, "WORTHWHILE", at_once)
    rng = random.Random(5)
    headers = ((), ((b"", None),), ((b"a", b"1"),) * 300)
    sizes = (0, 1, 63, 64, 127, 128, 8191, 8192, 70_000, 1_048_576)
    records = [
        Record(
            10 + 3 * number,
            TimestampType.CREATE,
            1_700_000_000_000 + rng.choice([-(2**50), 0, 1, 2**50]),
            rng.choice([None, b"", b"k" * 100]),
            rng.choice([None, rng.randbytes(size)]),
            rng.choice(headers),
        )
        for number, size in enumerate(sizes)
    ]
    data = batch(records[:3], compression=codec) + batch(records[3:], compression=codec)
    assert converted(data) == b"".join(map(encode, records))


def test_records_of_aborted_transactions_are_left_out_and_of_committed_ones_kept() -> None:
    owner = {"flags": TRANSACTIONAL, "producer": (7, 0, 0)}
    marks = {"flags": TRANSACTIONAL | CONTROL, "producer": (7, 0, 0)}
    data = b"".join(
        [
            batch(run(0, 2), **owner),  # type: ignore[arg-type]
            batch([control_record(2, ABORT)], **marks),  # type: ignore[arg-type]
            batch(run(3, 5), **owner),  # type: ignore[arg-type]
            batch([control_record(5, COMMIT)], **marks),  # type: ignore[arg-type]
            batch(run(6, 8)),
        ]
    )
    kept = b"".join(map(encode, [*run(3, 5), *run(6, 8)]))
    assert converted(data, aborted=[(0, 7)]) == kept


class TestLeftToTheDecoderOfSingleRecords:
    def test_a_flipped_bit_is_told_by_the_crc(self) -> None:
        for at in range(17, len(batch(run(0, 3)))):
            data = bytearray(batch(run(0, 3)) * 2)
            data[at] ^= 0x40
            with pytest.raises(MalformedMessage, match=ON_BROKER):
                converted(bytes(data))

    @codecs
    def test_older_messages_between_batches_are_kept(self, codec: Compression) -> None:
        within = min(codec, Compression.LZ4)
        older = message_set if codec is Compression.NONE else partial(wrapped, compression=within)
        data = batch(run(0, 3)) + older(run(3, 6), magic=1) + batch(run(6, 9), compression=codec)
        assert converted(data) == b"".join(map(encode, run(0, 9)))

    def test_records_without_a_timestamp_have_none(self) -> None:
        (chunk,) = chunks_of(fetched(message_set(run(5, 7), 0)), *ALL)
        expected = [
            record._replace(timestamp_type=TimestampType.NONE, timestamp=None)
            for record in run(5, 7)
        ]
        assert bytes(chunk.data) == b"".join(map(encode, expected))
        assert chunk.timestamps.tolist() == [-1, -1]

    def test_what_was_converted_before_a_damaged_batch_does_not_come_twice(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(contents_module, "CONTENTS_BYTES", 1)
        wide = [plain(3), plain(4)._replace(timestamp=2**63 - 1)]
        data = batch(run(0, 3)) + batch(wide) + batch(run(5, 7))
        assert converted(data) == b"".join(map(encode, [*run(0, 3), *wide, *run(5, 7)]))


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=3),
    st.sampled_from([None, 3, 4, 2, 5]),
)
@example([(18, 246)], None)
def test_records_changed_in_a_few_bytes_are_converted_alike_or_refused_alike(
    changes: list[tuple[int, int]], count: int | None
) -> None:
    payload = bytearray(encoded([plain(0)._replace(headers=((b"h", None),)), *run(1, 3)], 0))
    for at, value in changes:
        payload[at % len(payload)] = value
    assert_agreed(bytes(payload), 3 if count is None else count, 9)


@pytest.mark.parametrize("payload", LYING.values(), ids=LYING)
def test_records_that_lie_about_themselves_are_refused_alike(payload: bytes) -> None:
    assert_agreed(payload, 1, 9)
    with pytest.raises(MalformedMessage):
        converted(with_payload(payload, 1, 9))


@pytest.mark.parametrize(("count", "last"), [(3, 1), (-1, 1), (1, -1)])
def test_a_batch_cannot_have_more_records_than_offsets(count: int, last: int) -> None:
    records = b"".join(
        b"\x0c\x00\x00" + bytes([2 * delta]) + b"\x01\x01\x00" for delta in (0, 1, 1)
    )
    with pytest.raises(MalformedMessage):
        converted(with_payload(records[: 7 * max(count, 0)], count, last))


def test_a_timestamp_past_the_last_one_there_is_is_refused() -> None:
    """Its batch begins at the last millisecond, and it lies five later."""
    record = b"\x0c\x00\x0a\x00\x01\x01\x00"
    times = (2**63 - 1, 2**63 - 1)
    data = sealed(0, len(record), 1, 2, 0, 0, 0, *times, -1, -1, -1, 1, payload=record)
    with pytest.raises(MalformedMessage):
        converted(data)


def with_payload(payload: bytes, count: int, last: int) -> bytes:
    """A batch whose header and CRC are right and whose records are *payload*."""
    return sealed(0, len(payload), 1, 2, 0, 0, last, 0, 0, -1, -1, -1, count, payload=payload)


def assert_agreed(payload: bytes, count: int, last: int) -> None:
    data = with_payload(payload, count, last) + batch(run(100, 102))
    found = []
    for convert in (exactly, chunks_of):
        try:
            found.append(repr(flat(list(convert(fetched(data), *ALL)))))
        except MalformedMessage as error:
            found.append(str(error))
    assert found[0] == found[1]
