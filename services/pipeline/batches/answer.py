"""Decodes the response to a Fetch of one partition, and copies its records only once.

kafka-python's decoder copies the rest of a response for every tagged field, and most of a response
is records. The layouts are those of FetchResponse.json from v4 on; v12 added tagged fields.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

FIRST_VERSION = 4
"""The version of Kafka 0.11: older brokers do not support transactions."""
LOG_START_VERSION = 5
SESSION_VERSION = 7
FOLLOWER_VERSION = 11
FLEXIBLE_VERSION = 12
"""From this version on lengths are varints, and tagged fields follow each structure."""
TOPIC_ID_VERSION = 13
"""From this version on, requests name topics by their ids."""
DIVERGING_EPOCH = 0
"""The tag of the epoch at which the log diverged from the log that was read before."""

_SESSION = struct.Struct(
    ">h"  # ErrorCode => int16
    "i"  # SessionId => int32
)
_PARTITION = struct.Struct(
    ">i"  # PartitionIndex   => int32
    "h"  # ErrorCode        => int16
    "q"  # HighWatermark    => int64
    "q"  # LastStableOffset => int64
)
_ABORTED = struct.Struct(
    ">q"  # ProducerId  => int64
    "q"  # FirstOffset => int64
)
_EPOCH_END = struct.Struct(
    ">i"  # Epoch     => int32
    "q"  # EndOffset => int64
)
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_TOPIC_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """The answer for its one partition."""

    throttle_time_ms: int
    error_code: int
    """The error of the answer or of the partition."""
    last_stable_offset: int
    log_start: int
    """-1 before v5, whose answers do not have it."""
    aborted: tuple[tuple[int, int], ...]
    """First offset and producer id of each aborted transaction."""
    diverged: tuple[int, int] | None
    """Epoch and end offset of the last epoch that the broker shares with the reader."""
    records: bytes
    empty: bool = False
    """The answer has no partition."""

    name = "FetchResponse"

    @staticmethod
    def parse_header(data: Any, version: int) -> Any:
        """Skip the header, as kafka-python does."""
        from kafka.protocol.consumer import FetchResponse

        return FetchResponse.parse_header(data, version=version)

    @classmethod
    def decode(cls, body: memoryview, *, version: int) -> FetchAnswer:
        """Decode the answer. Raises struct.error or ValueError for bytes that are not an answer."""
        return _Decoder(body, version).answer()


class _Decoder:
    """Reads an answer; `_at` is the position of the next byte."""

    def __init__(self, body: memoryview, version: int) -> None:
        self._body = body
        self._version = version
        self._flexible = version >= FLEXIBLE_VERSION
        self._at = 0

    def answer(self) -> FetchAnswer:
        (throttle,) = self._take(_INT)
        error, _ = self._take(_SESSION) if self._version >= SESSION_VERSION else (0, 0)
        if not self._count():
            return FetchAnswer(throttle, error, -1, -1, (), None, b"", empty=True)
        self._slice(_TOPIC_ID_BYTES if self._version >= TOPIC_ID_VERSION else self._short_size())
        if not self._count():
            return FetchAnswer(throttle, error, -1, -1, (), None, b"", empty=True)
        _, own_error, _, stable = self._take(_PARTITION)
        (start,) = self._take(_LONG) if self._version >= LOG_START_VERSION else (-1,)
        aborted = tuple(self._aborted() for _ in range(self._count()))
        if self._version >= FOLLOWER_VERSION:
            self._take(_INT)  # PreferredReadReplica
        records = bytes(self._slice(self._count()))
        diverged = self._diverged() if self._flexible else None
        return FetchAnswer(throttle, error or own_error, stable, start, aborted, diverged, records)

    def _aborted(self) -> tuple[int, int]:
        producer, first = self._take(_ABORTED)
        if self._flexible:
            self._tags()
        return first, producer

    def _diverged(self) -> tuple[int, int] | None:
        content = self._tags().get(DIVERGING_EPOCH)
        if content is None:
            return None
        epoch, end = _EPOCH_END.unpack_from(content)
        return (epoch, end) if end >= 0 else None

    def _tags(self) -> dict[int, memoryview]:
        return {self._varint(): self._slice(self._varint()) for _ in range(self._varint())}

    def _count(self) -> int:
        """The number of entries or bytes that follow; 0 for null."""
        if self._flexible:
            return max(self._varint() - 1, 0)
        return max(int(self._take(_INT)[0]), 0)

    def _short_size(self) -> int:
        if self._flexible:
            return max(self._varint() - 1, 0)
        return max(int(self._take(_SHORT)[0]), 0)

    def _take(self, form: struct.Struct) -> tuple[int, ...]:
        found = form.unpack_from(self._body, self._at)
        self._at += form.size
        return found

    def _slice(self, size: int) -> memoryview:
        end = self._at + size
        if end > len(self._body):
            raise ValueError(f"{size} bytes at byte {self._at} of {len(self._body)}")
        found = self._body[self._at : end]
        self._at = end
        return found

    def _varint(self) -> int:
        value = shift = 0
        while shift < 35:
            byte = self._slice(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ValueError(f"a number of more than 32 bits at byte {self._at}")
