"""Reads frames of Kafka's protocol from a socket, each into the memory of the previous frame.

The memory can be reused because kafka-python's decoders copy strings and bytes out of a frame, and
keep no views of it. It grows with what has come: the size that a peer announces costs nothing.
"""

from __future__ import annotations

import io
import socket
import struct
from typing import Any

from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.memory import ANSWERS, RECORDS, Room, TooLarge

MAX_FRAME_BYTES = 256 * 1024 * 1024
"""A larger response is refused: no answer we ask for comes near it."""
KEPT_BYTES = 5 * 1024 * 1024
"""A buffer for records that is larger than this is freed after its frame."""
KEPT_ANSWER_BYTES = 256 * 1024
"""The same of a buffer for answers without records."""
FIRST_BYTES = 4 * 1024
HEADER_BYTES = 1024
"""More than the header of any response needs."""
SIZE = struct.Struct(">i")


class Frames:
    """The frames of one connection."""

    def __init__(self) -> None:
        self._buffer = bytearray(FIRST_BYTES)
        self._room: Room = ANSWERS
        """What the memory beyond the first bytes is taken from."""

    def __del__(self) -> None:
        self._replace(bytearray(), ANSWERS)

    def read(self, sock: socket.socket, deadline: Deadline, *, records: bool = False) -> memoryview:
        """The next frame without its size; valid until the following frame is read.

        *records*: the answer has records, and is as large as they are.

        Raises:
            TimeoutError: the frame did not arrive before *deadline*.
            OSError: the connection broke, or the bytes are not a frame.
            TooLarge: the frame exceeds the memory for answers.
        """
        room, kept = (RECORDS, KEPT_BYTES) if records else (ANSWERS, KEPT_ANSWER_BYTES)
        if len(self._buffer) > kept:
            self._replace(bytearray(FIRST_BYTES), room)
        _fill(memoryview(self._buffer)[: SIZE.size], sock, deadline)
        size = SIZE.unpack_from(self._buffer)[0]
        if not SIZE.size <= size <= MAX_FRAME_BYTES:
            raise OSError(f"a frame of {size} bytes is not Kafka's protocol")
        if size > room.size:
            raise TooLarge(f"an answer of {size:,} bytes is more than is taken")
        got = 0
        while got < size:
            if got == len(self._buffer):
                self._replace(bytearray(min(size, 2 * got)), room, got)
            part = memoryview(self._buffer)[got : min(size, len(self._buffer))]
            _fill(part, sock, deadline)
            got += len(part)
        return memoryview(self._buffer)[:size]

    def _replace(self, buffer: bytearray, room: Room, got: int = 0) -> None:
        """Go on in *buffer*, with the first *got* bytes of the former one."""
        before = max(len(self._buffer) - FIRST_BYTES, 0)
        if len(buffer) > FIRST_BYTES:
            room.take(len(buffer) - FIRST_BYTES)
        buffer[:got] = memoryview(self._buffer)[:got]
        self._buffer = buffer
        if before:
            self._room.give(before)
        self._room = room


def limit_wait(sock: socket.socket, deadline: Deadline) -> None:
    """End the next wait on *sock* at *deadline*. Raises TimeoutError if the deadline has passed."""
    remaining = deadline.remaining()
    if remaining == 0.0:
        raise TimeoutError
    sock.settimeout(remaining)


def body_of(frame: memoryview, response_class: Any, version: int) -> memoryview:
    """The part of *frame* after its header."""
    head = io.BytesIO(frame[:HEADER_BYTES])
    response_class.parse_header(head, version=version)
    return frame[head.tell() :]


def _fill(view: memoryview, sock: socket.socket, deadline: Deadline) -> None:
    got = 0
    while got < len(view):
        limit_wait(sock, deadline)
        read = sock.recv_into(view[got:])
        if read == 0:
            raise ConnectionResetError("the broker closed the connection")
        got += read
