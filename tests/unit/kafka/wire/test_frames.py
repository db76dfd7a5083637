"""Frames off a socket: whole, in order, in one memory; what was decoded of one stays as it is."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from breakglass.services.kafka.wire.frames import FIRST_BYTES, KEPT_BYTES, Frames
from tests.kit.deadlines import ample
from tests.kit.fake_broker import FakeBroker
from tests.unit.kafka.wire.test_connection import ask, connect

SIZES = (4, FIRST_BYTES, FIRST_BYTES + 1, 3, KEPT_BYTES + 1, 40, KEPT_BYTES)


@pytest.fixture
def wire() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection."""
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        yield ours, theirs


def test_frames_of_any_size_come_in_order(
    wire: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = wire
    sent = [bytes([number]) * max(size, 4) for number, size in enumerate(SIZES)]
    framed = b"".join(struct.pack(">i", len(part)) + part for part in sent)
    threading.Thread(target=theirs.sendall, args=(framed,), daemon=True).start()
    frames, deadline = Frames(), ample()
    assert [bytes(frames.read(ours, deadline)) for _ in sent] == sent


def test_an_answer_stays_as_it_is_when_the_next_one_comes() -> None:
    names = iter(["first", "other"])
    with FakeBroker() as broker:
        broker.serve(MetadataRequest, lambda _: MetadataResponse(cluster_id=next(names)))
        with closing(connect(broker)) as connection:
            first, other = ask(connection), ask(connection)
    assert (first.cluster_id, other.cluster_id) == ("first", "other")
