"""Bounds the memory that brokers' answers take, for a broker chooses how much it sends.

Two budgets are shared by all connections of a process: one for what has arrived of answers, and one
for what is decoded of them, which can be many times larger. An answer with records has a budget of
its own, because one batch may have the size that a topic's settings allow.
"""

from __future__ import annotations

import io
import threading
from typing import Any

from breakglass.services import patience
from breakglass.services.errors import MalformedMessage
from breakglass.services.kafka.wire.api_keys import FETCH
from breakglass.services.kafka.wire.deadline import Deadline

MEBIBYTE = 1024 * 1024
ITEM_BYTES, BYTE_BYTES = 32, 16
"""What a decoded item takes at least, and a decoded byte: a string of one character has 50."""
UNSHARED_BYTES = 64 * 1024
"""A smaller answer is decoded without a look at the budget."""
COPIED_BYTES = 1024 * MEBIBYTE
"""kafka-python copies the rest of an answer for each structure that has tagged fields."""
MOST_TAGS = 64


class TooLarge(MalformedMessage):
    """An answer that exceeds the memory that answers may take."""


class Room:
    """A number of bytes that the connections of a process share."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._held = 0
        self._changed = threading.Condition()

    def take(self, size: int) -> None:
        """Reserve *size* bytes. Raises TooLarge if fewer are left."""
        with self._changed:
            if self._held + size > self.size:
                raise TooLarge(f"answers would take more than {self.size // MEBIBYTE:,} MB")
            self._held += size

    def give(self, size: int) -> None:
        with self._changed:
            self._held -= size
            self._changed.notify_all()

    def half_free(self, deadline: Deadline) -> int:
        """How many bytes are left, once that is at least one half, or the deadline passes."""
        limit = deadline.sooner(patience.LOOK)
        with self._changed:
            self._changed.wait_for(lambda: 2 * self._held <= self.size, limit.remaining())
            return self.size - self._held


ANSWERS = Room(32 * MEBIBYTE)
"""What has arrived of answers without records."""
RECORDS = Room(96 * MEBIBYTE)
"""What has arrived of answers with records; see `read_large_batches`."""
LARGE_BATCHES_BYTES = 512 * MEBIBYTE
DECODED = Room(112 * MEBIBYTE)
"""What is decoded of answers, as long as a caller uses it."""
_LARGE = threading.Lock()
"""Large answers are decoded one after the other, so that each has half of the room at least."""


def read_large_batches() -> None:
    """Let this process, which copies records, receive batches of any size that brokers accept."""
    RECORDS.size = LARGE_BATCHES_BYTES


class _Tally(threading.local):
    """What the decoding under way in this thread has made so far."""

    left: float = float("inf")
    copies: float = float("inf")

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise TooLarge("what it has takes more memory than answers may")


_TALLY = _Tally()


class _Held:
    """Reserved bytes, returned when the answer that has this is collected."""

    def __init__(self, size: int) -> None:
        self._size = size
        DECODED.take(size)

    def __del__(self) -> None:
        DECODED.give(self._size)


def decoded(response_class: Any, body: memoryview, version: int, deadline: Deadline) -> Any:
    """The answer of *response_class* in *body*.

    Raises TooLarge: what is decoded takes more memory than there is.
    """
    if len(body) <= UNSHARED_BYTES:
        return response_class.decode(body, version=version)
    message_class = getattr(response_class, "message_class", response_class)
    if hasattr(message_class, "_struct"):
        flexible = message_class.flexible_version_q(version)
        decode = message_class._struct.compiled_decode_from(
            version, compact=flexible, tagged=flexible, data_class=message_class[None]
        )
        # Its source is generated, and finds these names among its globals before the built-in ones.
        decode.__globals__.update(range=_counted, bytes=_copied, _BytesIO=_Tags)
    with _LARGE:
        room = DECODED.half_free(deadline)
        _TALLY.left, _TALLY.copies = room, COPIED_BYTES
        try:
            if getattr(message_class, "API_KEY", FETCH) != FETCH:
                _TALLY.spend(len(body) * BYTE_BYTES)
            answer = response_class.decode(body, version=version)
            spent = int(room - _TALLY.left)
        finally:
            _TALLY.left = _TALLY.copies = float("inf")
        if hasattr(type(answer), "_header"):
            # Decoding leaves the slot of the header empty, and it lives as long as the answer.
            answer._header = _Held(spent)
    return answer


def _counted(count: int) -> range:
    if count < 0:
        raise ValueError(f"an array of {count} items")
    left = _TALLY.left = _TALLY.left - ITEM_BYTES - ITEM_BYTES * count
    if left < 0:
        raise TooLarge("what it has takes more memory than answers may")
    return range(count)


def _copied(content: Any) -> bytes:
    _TALLY.copies -= len(content)
    if _TALLY.copies < 0:
        raise TooLarge("its tagged fields cannot be read in a reasonable time")
    return bytes(content)


class _Tags(io.BytesIO):
    """The rest of an answer from a structure's tagged fields on."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        if content and content[0] > MOST_TAGS:
            raise TooLarge(f"a structure has {content[0]} tagged fields or more")
