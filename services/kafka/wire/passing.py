"""Reads and writes frames that go by: what stands between a client and a broker understands."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Any

from breakglass.services.errors import MalformedMessage
from breakglass.services.kafka.wire.frames import MAX_FRAME_BYTES
from breakglass.services.kafka.wire.messages.message import decode_exactly

HEADER = struct.Struct(">hhih")
"""Api key, api version, correlation id, length of the client id (-1: null)."""
PRODUCE = 0
API_VERSIONS = 18


@dataclass(frozen=True, slots=True)
class Head:
    """A request's header, up to the client id."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    end: int
    """Where the header's tagged fields begin if the version is flexible, else the body."""


def read_frame(sock: socket.socket) -> bytes | None:
    """The next frame without its length; None when the peer closed between two frames.

    Raises:
        OSError: the connection broke within a frame.
        MalformedMessage: the length is none of a Kafka frame.
    """
    prefix = _read_up_to(sock, 4)
    if not prefix:
        return None
    if len(prefix) < 4:
        raise ConnectionResetError("closed within a frame's length")
    (size,) = struct.unpack(">i", prefix)
    if not 0 <= size <= MAX_FRAME_BYTES:
        raise MalformedMessage(f"a frame of {size} bytes is not Kafka's: look at what sent it")
    frame = _read_up_to(sock, size)
    if len(frame) < size:
        raise ConnectionResetError("closed within a frame")
    return frame


def send_frame(sock: socket.socket, frame: bytes) -> None:
    """Send *frame* after its length."""
    sock.sendall(struct.pack(">i", len(frame)) + frame)


def parse_head(frame: bytes) -> Head:
    """The header of a request (versions 1 and 2 begin alike).

    Raises MalformedMessage: the frame is too short or its client id is no text.
    """
    try:
        key, version, correlation, length = HEADER.unpack_from(frame)
        end = HEADER.size + max(length, 0)
        raw = frame[HEADER.size : end]
        client_id = None if length < 0 else raw.decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedMessage(f"a request's header cannot be read ({error}): {_hex(frame)}") from (
            error
        )
    if len(raw) != max(length, 0) or key < 0 or version < 0:
        raise MalformedMessage(f"this is no request header: {_hex(frame)}")
    return Head(key, version, correlation, client_id, end)


def request_body(request_class: Any, version: int, rest: bytes) -> Any:
    """The message that *rest*, all that follows the client id, holds.

    Raises MalformedMessage: it holds something else.
    """
    body = memoryview(rest)
    if request_class.flexible_version_q(version):
        body = body[_tags_end(rest, 0) :]
    return decode_exactly(request_class, body, version)


def answer_frame(head: Head, message: Any) -> bytes:
    """The frame that answers *head* with *message*."""
    tags = b"\0" if _tagged(head, message) else b""
    # kafka-python looks at the header of what it encodes, and leaves it unset on what it decodes.
    message._header = None
    body = bytes(message.encode(version=head.api_version))
    return struct.pack(">i", head.correlation_id) + tags + body


def answer_message(head: Head, frame: bytes, response_class: Any) -> Any:
    """The message in *frame*, the answer to *head*."""
    start = _tags_end(frame, 4) if _tagged(head, response_class) else 4
    return response_class.decode(frame[start:], version=head.api_version)


def _tagged(head: Head, response: Any) -> bool:
    """Whether the answer's header has tagged fields; that of ApiVersions never has (KIP-511)."""
    flexible = response.flexible_version_q(head.api_version)
    return bool(flexible) and head.api_key != API_VERSIONS


def expects_answer(head: Head, frame: bytes) -> bool:
    """False for records produced with acks=0, which a broker never answers."""
    if head.api_key != PRODUCE:
        return True
    position = head.end
    if head.api_version >= 9:
        position = _tags_end(frame, position)
        length, position = _varint(frame, position)
        position += max(length - 1, 0)
    elif head.api_version >= 3:
        (length,) = struct.unpack_from(">h", frame, position)
        position += 2 + max(length, 0)
    (acks,) = struct.unpack_from(">h", frame, position)
    return bool(acks != 0)


def _read_up_to(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = sock.recv(min(size - len(data), 1 << 20))
        if not part:
            break
        data += part
    return bytes(data)


def _tags_end(data: bytes, position: int) -> int:
    """Where a block of tagged fields that begins at *position* ends."""
    count, position = _varint(data, position)
    for _ in range(count):
        _, position = _varint(data, position)
        size, position = _varint(data, position)
        position += size
    return position


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedMessage(f"a variable length number is cut short: {_hex(data)}")


def _hex(data: bytes) -> str:
    return data[:32].hex(" ") + (" ..." if len(data) > 32 else "")
