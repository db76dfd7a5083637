"""Frames off a socket: whole, in order, in memory that grows with what comes and is bounded."""

import socket
import struct
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from breakglass.services.errors import MalformedMessage
from breakglass.services.kafka.wire import frames as module
from breakglass.services.kafka.wire.frames import Frames
from breakglass.services.kafka.wire.memory import Room, TooLarge
from tests.kit.deadlines import ample
from tests.kit.fake_broker import FakeBroker, Raw
from tests.unit.kafka.wire.test_connection import ask, connect


@pytest.fixture
def wire() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection."""
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        yield ours, theirs


def test_an_answer_stays_as_it_is_when_the_next_one_comes() -> None:
    names = iter(["first", "other"])
    with FakeBroker() as broker:
        broker.serve(MetadataRequest, lambda _: MetadataResponse(cluster_id=next(names)))
        with closing(connect(broker)) as connection:
            first, other = ask(connection), ask(connection)
    assert (first.cluster_id, other.cluster_id) == ("first", "other")


class NotedRoom(Room):
    """Notes the most that was held, and what is held now."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.now = self.most = 0

    def take(self, size: int) -> None:
        super().take(size)
        self.now += size
        self.most = max(self.most, self.now)

    def give(self, size: int) -> None:
        super().give(size)
        self.now -= size


def test_s20_an_announced_size_takes_no_memory_before_its_bytes_come(
    wire: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    room = NotedRoom(512 * 1024 * 1024)
    monkeypatch.setattr(module, "RECORDS", room)
    ours, theirs = wire
    theirs.sendall(struct.pack(">i", 200_000_000) + bytes(20_000))
    theirs.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionResetError):
        Frames().read(ours, ample(), records=True)
    assert 0 < room.most < 64 * 1024
    assert room.now == 0


def test_s20_the_connections_of_a_process_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWERS", NotedRoom(120_000))
    pairs = [socket.socketpair() for _ in range(3)]
    readers = [Frames() for _ in pairs]
    refused = []
    for (ours, theirs), reader in zip(pairs, readers, strict=True):
        with closing(ours), closing(theirs):
            theirs.sendall(struct.pack(">i", 40_000) + bytes(40_000))
            try:
                reader.read(ours, ample())
            except TooLarge:
                refused.append(reader)
    assert refused == readers[2:]


def test_s20_an_answer_that_is_too_large_is_refused_by_its_brokers_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "ANSWERS", Room(1_000_000))
    large = MetadataResponse(cluster_id="x" * 30_000)
    with FakeBroker() as broker:
        broker.serve(MetadataRequest, lambda _: Raw(struct.pack(">i", 2_000_000)))
        with closing(connect(broker)) as connection:
            with pytest.raises(MalformedMessage, match=str(broker.endpoint)):
                ask(connection)
            assert connection.closed
        broker.serve(MetadataRequest, lambda _: large)
        with closing(connect(broker)) as connection:
            assert ask(connection).cluster_id == large.cluster_id
