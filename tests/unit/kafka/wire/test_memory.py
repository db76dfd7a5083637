"""What is decoded of answers: counted while it is made, and bounded over all connections."""

import re
import struct
import tracemalloc
from contextlib import closing
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from breakglass.services.errors import MalformedMessage
from breakglass.services.kafka.wire import memory
from breakglass.services.kafka.wire.answers import Unchanged
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.memory import MEBIBYTE, Room, decoded
from tests.kit.deadlines import ample
from tests.kit.fake_broker import Body, FakeBroker
from tests.unit.kafka.wire.test_connection import ask, connect

VERSION = 8
NOW = Deadline.after(0.0)
NO_TOPICS = struct.pack(">iih", 0, 0, -1) + struct.pack(">i", 1)


def answer(topics: int) -> memoryview:
    """An answer of Metadata with that many topics without name or partitions."""
    topic = struct.pack(">hhbii", 0, 0, 0, 0, 0)
    return memoryview(NO_TOPICS + struct.pack(">i", topics) + topic * topics + bytes(4))


def few_bytes(monkeypatch: pytest.MonkeyPatch, size: int) -> Room:
    room = Room(size)
    monkeypatch.setattr(memory, "DECODED", room)
    return room


@pytest.mark.parametrize("cached", [False, True])
def test_s21_what_is_decoded_stays_within_its_budget(
    cached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_bytes(monkeypatch, 2 * MEBIBYTE)
    response: Any = Unchanged(MetadataResponse, lambda read: read) if cached else MetadataResponse
    bomb = answer(8_000)
    tracemalloc.start()
    try:
        assert len(MetadataResponse.decode(answer(8_000), version=VERSION).topics) == 8_000
        unbounded = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        with pytest.raises(memory.TooLarge):
            decoded(response, bomb, VERSION, ample())
        assert tracemalloc.get_traced_memory()[1] < unbounded
    finally:
        tracemalloc.stop()


def test_s21_answers_in_use_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    room = few_bytes(monkeypatch, 16 * MEBIBYTE)
    held = decoded(MetadataResponse, answer(32_000), VERSION, ample())
    left = room.half_free(NOW)
    assert left < 16 * MEBIBYTE
    with pytest.raises(memory.TooLarge):
        decoded(MetadataResponse, answer(32_000), VERSION, NOW)
    del held
    assert room.half_free(NOW) == 16 * MEBIBYTE


@pytest.mark.parametrize("count", [-(2**31), 2**31 - 1])
def test_s21_impossible_counts_are_the_brokers_fault(count: int) -> None:
    body = NO_TOPICS + struct.pack(">i", count) + bytes(80_000)
    with FakeBroker() as broker:
        broker.serve(MetadataRequest, lambda _: Body(body), versions=(VERSION, VERSION))
        peer = re.escape(str(broker.endpoint))
        with closing(connect(broker)) as found, pytest.raises(MalformedMessage, match=peer):
            ask(found)


def test_s21_tagged_fields_are_no_way_to_take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder copies what is left of an answer for each structure that has some."""
    monkeypatch.setattr(memory, "COPIED_BYTES", MEBIBYTE)
    tagged = struct.pack(">hBbBiB", 0, 1, 0, 1, 0, 1) + bytes([9, 0])
    body = struct.pack(">iBBiBB", 0, 1, 0, 1, 0x8F, 0x4E) + tagged * 9_998
    with pytest.raises(memory.TooLarge):
        decoded(MetadataResponse, memoryview(body), 9, ample())
