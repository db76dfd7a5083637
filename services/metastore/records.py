"""One record of a command topic, and the line that a backup has of it."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]

SEPARATOR = b":"
END = b"\n"


class CommandRecord(NamedTuple):
    """A record as it was read from the topic."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: Headers = ()

    @property
    def line(self) -> bytes:
        """Its line: ``key:value`` and a line end; null is written as nothing at all."""
        return b"%b:%b\n" % (self.key or b"", self.value or b"")

    @property
    def problem(self) -> str:
        """Why the KLIP's one line a command cannot carry it as it is; empty when it can."""
        if self.key is None or self.value is None:
            return f"its {'key' if self.key is None else 'value'} is null"
        key, value = self.key, self.value
        if b"\n" in value or b"\r" in value or b"\n" in key or b"\r" in key:
            return "it holds a raw line break, where ksqlDB's own reader splits the line"
        return ""
