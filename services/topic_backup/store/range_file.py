"""A file of which only what is read is fetched."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from typing_extensions import Buffer

Fetch = Callable[[int, int], bytes]
"""The bytes from one position to another."""


def range_file(fetch: Fetch, size: int, buffer_bytes: int) -> BinaryIO:
    """A seekable file of *size* bytes; small reads are gathered to fetches of *buffer_bytes*."""
    return cast(BinaryIO, io.BufferedReader(_Ranges(fetch, size), buffer_bytes))


class _Ranges(io.RawIOBase):
    def __init__(self, fetch: Fetch, size: int) -> None:
        self._fetch = fetch
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def readall(self) -> bytes:
        """All that is left, by one fetch: it would be read in pieces of 8 KiB otherwise."""
        start, self._position = self._position, max(self._position, self._size)
        return self._fetch(start, self._size) if start < self._size else b""

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        end = min(self._position + len(view), self._size)
        if end <= self._position:
            return 0
        content = self._fetch(self._position, end)
        view[: len(content)] = content
        self._position += len(content)
        return len(content)
