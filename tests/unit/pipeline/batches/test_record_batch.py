"""Record batches and numbers written and read by columns."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.errors import MalformedInput
from breakglass.services.pipeline.batches.record_batch import (
    Producer,
    batch_rows,
    record_batch,
    stored_columns,
)
from breakglass.services.pipeline.stored_segments import RecordRun
from breakglass.services.record_batches import Record, RecordBatch, TimestampType
from breakglass.services.topic_backup.record import encode
from tests.kit.batches import decode_batches

PRODUCER = Producer(id=2**40, epoch=7, transactional=True)
LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.binary(max_size=300)
HEADERS = st.lists(st.tuples(TEXTS, st.none() | TEXTS), max_size=4).map(tuple)


@st.composite
def records(draw: st.DrawFn) -> Record:
    kind = draw(st.sampled_from(TimestampType))
    timestamp = draw(LONGS | st.sampled_from([-1, 0, 1_700_000_000_000])) if kind.stamped else None
    key, value = draw(st.none() | TEXTS), draw(st.none() | TEXTS)
    return Record(0, kind, timestamp, key, value, draw(HEADERS))


def run(some: Sequence[Record]) -> RecordRun:
    """The *some* as they are stored, at rising offsets with gaps."""
    encoded = [encode(record._replace(offset=3 * number)) for number, record in enumerate(some)]
    bounds = np.cumsum([0, *map(len, encoded)])
    return RecordRun(3 * np.arange(len(some)), bounds, np.frombuffer(b"".join(encoded), np.uint8))


def batches(some: Sequence[Record], most_bytes: int) -> list[tuple[RecordBatch, int]]:
    """The *some* in batches, each with how many bytes it has."""
    columns, sent, sequence = stored_columns(run(some)), [], 100
    for start, end in batch_rows(columns, most_bytes):
        content = record_batch(columns.rows(start, end), PRODUCER, sequence)
        (batch,) = decode_batches(content, "a test")
        assert batch.header.base_sequence == sequence
        sequence += end - start
        sent.append((batch, len(content)))
    return sent


def as_sent(record: Record) -> tuple[object, ...]:
    timestamp = -1 if record.timestamp is None else record.timestamp
    return timestamp, record.key, record.value, record.headers


@given(st.lists(records(), min_size=1, max_size=30), st.integers(100, 3_000))
def test_every_field_of_every_record_is_found_again(some: list[Record], most_bytes: int) -> None:
    sent = batches(some, most_bytes)
    found = [record for batch, _ in sent for record in batch.records]
    assert list(map(as_sent, found)) == list(map(as_sent, some))
    assert all(size <= most_bytes or len(batch.records) == 1 for batch, size in sent)


def test_timestamps_too_far_apart_for_a_delta_go_into_batches_of_their_own() -> None:
    plain = Record(0, TimestampType.CREATE, 2**62, b"k", b"v")
    sent = batches([plain, plain, plain._replace(timestamp=-(2**62) - 5), plain], 1_000)
    assert [len(batch.records) for batch, _ in sent] == [2, 1, 1]


@pytest.mark.parametrize("at", [8, 20, 26, 32, 36])
def test_a_length_that_leaves_its_record_is_damage(at: int) -> None:
    good = run([Record(0, TimestampType.CREATE, 5, b"kk", b"vv", ((b"h", b"x"),))] * 2)
    data = good.data.copy()
    data[at] = 0x7F
    with pytest.raises(MalformedInput):
        stored_columns(RecordRun(good.offsets, good.bounds, data))
    left = np.append(good.data, np.uint8(0))
    with pytest.raises(MalformedInput):
        stored_columns(RecordRun(good.offsets, good.bounds + np.array([0, 0, 1]), left))
