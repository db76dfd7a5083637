"""Reads the primitive types of Kafka's versioned records.

In a flexible version, strings and arrays are compact and tagged fields follow. Lengths are checked
against the bytes that are there, because any client may have written a record of an internal topic.
"""

from __future__ import annotations

import struct
from uuid import UUID

INT64, INT32, INT16, INT8 = (struct.Struct(form) for form in (">q", ">i", ">h", ">b"))
MOST_VARINT_BYTES = 5


class NotThatRecord(Exception):
    """The bytes are not a record of the expected schema."""


class SchemaReader:
    """Walks over one key or value."""

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self.flexible = flexible
        self._data = data
        self._at = 0

    def int64(self) -> int:
        return self._number(INT64)

    def int32(self) -> int:
        return self._number(INT32)

    def int16(self) -> int:
        return self._number(INT16)

    def int8(self) -> int:
        return self._number(INT8)

    def uuid(self) -> UUID:
        return UUID(bytes=self._take(16))

    def text(self) -> str | None:
        """A string; None for null."""
        content = self.content(self._length(INT16))
        return None if content is None else content.decode("utf-8", "replace")

    def required_text(self) -> str:
        """A string that is not null. Raises NotThatRecord."""
        found = self.text()
        if found is None:
            raise NotThatRecord("a string is null")
        return found

    def blob(self) -> bytes | None:
        """Bytes; None for null."""
        return self.content(self._length(INT32))

    def count(self) -> int:
        """How many entries an array has; 0 for null."""
        found = self._length(INT32)
        # Every entry takes at least one byte.
        if found > len(self._data) - self._at:
            raise NotThatRecord(f"{found} entries do not fit")
        return max(found, 0)

    def tags(self) -> dict[int, bytes]:
        """The tagged fields that follow, by tag; empty in a version that is not flexible."""
        found: dict[int, bytes] = {}
        for _ in range(self._varint() if self.flexible else 0):
            tag, size = self._varint(), self._varint()
            found[tag] = self._take(size)
        return found

    def varint(self) -> int:
        """An unsigned number of variable length."""
        return self._varint()

    def content(self, size: int) -> bytes | None:
        return None if size < 0 else self._take(size)

    def _length(self, form: struct.Struct) -> int:
        return self._varint() - 1 if self.flexible else self._number(form)

    def _number(self, form: struct.Struct) -> int:
        return int(form.unpack(self._take(form.size))[0])

    def _varint(self) -> int:
        value = 0
        for place in range(MOST_VARINT_BYTES):
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value
        raise NotThatRecord("a number does not end")

    def _take(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            raise NotThatRecord(f"it ends after {len(self._data)} bytes")
        self._at += size
        return found
