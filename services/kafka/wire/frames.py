"""Frames of Kafka's protocol off a socket, each read into the memory of the one before it.

An answer that is decoded holds copies of what it needs: kafka-python's decoders take strings and
bytes out of a frame, never views of it.
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
"""More memory than this is given back after its frame."""
FIRST_BYTES = 4 * 1024
HEADER_BYTES = 1024
"""More than any header of a response takes."""
SIZE = struct.Struct(">i")


class Frames:
    """The frames of one connection."""

    def __init__(self) -> None:
        self._buffer = bytearray(FIRST_BYTES)

    def read(self, sock: socket.socket, deadline: Deadline) -> memoryview:
        """The next frame without its size, to be used before the next one is read.

        Raises:
            TimeoutError: it is not there before *deadline*.
            OSError: the connection broke, or what comes is no frame.
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
    """Let the next wait on *sock* end with *deadline*. Raises TimeoutError where that is over."""
    remaining = deadline.remaining()
    if remaining == 0.0:
        raise TimeoutError
    sock.settimeout(remaining)


def body_of(frame: memoryview, response_class: Any, version: int) -> memoryview:
    """What *frame* holds behind its header."""
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
