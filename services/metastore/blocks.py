"""Commands that are written or compared at once: their lines, and what is noted of them.

The lines come in pieces, so that the disk can take one while the next is made; they are noted
while the disk syncs them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.side_file import Noted, note

Piece = bytes | memoryview


class BlockFindings(NamedTuple):
    """What a look at the lines of some commands finds."""

    noted: Noted
    odd: bool
    """Whether some of the commands may have a `problem`."""


class Block(ABC):
    """The lines of some commands."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of all lines."""

    @abstractmethod
    def pieces(self) -> Iterator[Piece]:
        """The lines, one after the other, as many at once as are made at once."""

    @abstractmethod
    def look(self, pieces: Sequence[Piece]) -> BlockFindings:
        """Look at the commands; *pieces* are what `pieces` made."""


class CommandBlock(Sequence[CommandRecord], Block):
    """Commands that make their lines without an object for each command."""


class RecordBlock(Block):
    """Commands of which each is an object."""

    def __init__(self, records: Sequence[CommandRecord]) -> None:
        self._records = records
        self._lines = [record.line for record in records]
        self._data = b"".join(self._lines)

    @property
    def size(self) -> int:
        """Bytes of all lines."""
        return len(self._data)

    def pieces(self) -> Iterator[Piece]:
        """The lines as one piece."""
        yield self._data

    def look(self, pieces: Sequence[Piece]) -> BlockFindings:  # noqa: ARG002
        """Look at the objects, which are the same as *pieces*."""
        noted, data = note(self._records, self._lines), self._data
        return BlockFindings(
            noted, bool(noted.nulls) or b"\r" in data or data.count(b"\n") != len(noted)
        )


def block_of(records: Sequence[CommandRecord]) -> Block:
    """The lines of *records*."""
    return records if isinstance(records, CommandBlock) else RecordBlock(records)
