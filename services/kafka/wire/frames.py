"""Reads frames of Kafka's protocol from a socket, each into the memory of the previous frame.

The memory can be reused because kafka-python's decoders copy strings and bytes out of a frame, and
keep no views of it.
"""

from __future__ import annotations

import io
import socket
import struct
from typing import Any

from breakglass.services.kafka.wire.deadline import Deadline

MAX_FRAME_BYTES = 256 * 1024 * 1024
"""A larger response is refused: no answer we ask for comes near it."""
KEPT_BYTES = 5 * 1024 * 1024
"""A buffer larger than this is freed after its frame."""
FIRST_BYTES = 4 * 1024
HEADER_BYTES = 1024
"""More than the header of any response needs."""
SIZE = struct.Struct(">i")


class Frames:
    """The frames of one connection."""

    def __init__(self) -> None:
        self._buffer = bytearray(FIRST_BYTES)

    def read(self, sock: socket.socket, deadline: Deadline) -> memoryview:
        """The next frame without its size; valid until the following frame is read.

        Raises:
            TimeoutError: the frame did not arrive before *deadline*.
            OSError: the connection broke, or the bytes are not a frame.
        """
        size = SIZE.unpack(_filled(memoryview(bytearray(SIZE.size)), sock, deadline))[0]
        if not SIZE.size <= size <= MAX_FRAME_BYTES:
            raise OSError(f"a frame of {size} bytes is not Kafka's protocol")
        return _filled(memoryview(self._room(size))[:size], sock, deadline)

    def _room(self, size: int) -> bytearray:
        if size > KEPT_BYTES:
            return bytearray(size)
        if size > len(self._buffer):
            self._buffer = bytearray(min(max(size, 2 * len(self._buffer)), KEPT_BYTES))
        return self._buffer


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


def _filled(view: memoryview, sock: socket.socket, deadline: Deadline) -> memoryview:
    got = 0
    while got < len(view):
        limit_wait(sock, deadline)
        read = sock.recv_into(view[got:])
        if read == 0:
            raise ConnectionResetError("the broker closed the connection")
        got += read
    return view
