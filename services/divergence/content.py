"""Bytes of any length held in a few: their beginning, and what tells them from others.

A value of 10 MB costs no more memory than its first kilobyte, and two of them still compare
exactly: what is not kept is in a SHA-256 of the whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from breakglass.services.topic_backup.record import Headers

LENGTH = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class Keep:
    """How much of a record is held."""

    value: int
    """Bytes of a value; of a key, of a header's key and of its value as well."""
    headers: int
    """Headers of one record."""


ROWS = Keep(value=512, headers=8)
"""Enough for a line of a table: thousands of records are held at once."""
DETAIL = Keep(value=64 * 1024, headers=100)
"""For one record that is looked at."""

NOTHING = Keep(value=0, headers=0)
"""For what counts and places records, and shows none."""


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes, as far as they are kept. Equal when all of them are, if kept alike."""

    kept: bytes
    """Their beginning, or all."""
    size: int
    """Of all, in bytes."""
    digest: bytes = b""
    """SHA-256 of all of them; empty where all are kept."""


@dataclass(frozen=True, slots=True)
class HeaderList:
    """The headers of a record, as far as they are kept. Equal when all are, if kept alike."""

    kept: tuple[tuple[Content, Content | None], ...] = ()
    count: int = 0
    digest: bytes = b""
    """SHA-256 of all of them with their lengths; empty where all are among *kept*."""

    @property
    def size(self) -> int:
        """Bytes of those that are kept."""
        return sum(key.size + (value.size if value else 0) for key, value in self.kept)


NO_HEADERS = HeaderList()


def content_of(whole: bytes | None, limit: int) -> Content | None:
    """Hold *whole* in *limit* bytes; null stays None."""
    if whole is None:
        return None
    if len(whole) <= limit:
        return Content(whole, len(whole))
    return Content(whole[:limit], len(whole), sha256(whole).digest())


def headers_of(headers: Headers, keep: Keep) -> HeaderList:
    """Hold the first of *headers*, each bounded as a value is."""
    if not headers:
        return NO_HEADERS
    held = tuple(_header(key, value, keep.value) for key, value in headers[: keep.headers])
    digest = b"" if len(held) == len(headers) else _digest(headers)
    return HeaderList(held, len(headers), digest)


def _header(key: bytes, value: bytes | None, limit: int) -> tuple[Content, Content | None]:
    name = content_of(key, limit)
    assert name is not None
    return name, content_of(value, limit)


def _digest(headers: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    """Lengths are part of it: two lists that only join to the same bytes are not the same."""
    digest = sha256()
    for pair in headers:
        for part in pair:
            digest.update(LENGTH.pack(-1 if part is None else len(part)))
            digest.update(part or b"")
    return digest.digest()
