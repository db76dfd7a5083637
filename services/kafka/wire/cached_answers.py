"""Caches the answers to repeated requests, so that the same bytes are not decoded twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, BinaryIO, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CachedAnswer(Generic[T]):
    """An answer in the form that is kept."""

    value: T
    throttle_time_ms: int
    """For how long the broker wants silence (KIP-219)."""


class Unchanged(Generic[T]):
    """Takes the place of a response class where the same request is repeated.

    Keeps the last answer as *convert* makes it, with a digest of its bytes. If *convert* raises,
    the call raises that error and nothing is kept.
    """

    def __init__(self, response_class: Any, convert: Callable[[Any], T]) -> None:
        self.name: str = response_class.name
        self.message_class, self._convert = response_class, convert
        self._digest = b""
        self._told: CachedAnswer[T] | None = None

    def parse_header(self, head: BinaryIO, version: int) -> Any:
        return self.message_class.parse_header(head, version=version)

    def decode(self, body: bytes | memoryview, version: int) -> CachedAnswer[T]:
        """The answer in *body*; the same object as before if the bytes are the same."""
        digest = blake2b(body, salt=b"%d" % version).digest()
        if self._told is None or digest != self._digest:
            answer = self.message_class.decode(body, version=version)
            throttle_ms = getattr(answer, "throttle_time_ms", 0) or 0
            self._told = CachedAnswer(self._convert(answer), throttle_ms)
            self._digest = digest
        return self._told
