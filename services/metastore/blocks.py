"""The lines and side entries of commands that are written or compared together.

The lines come in pieces, so that the disk writes a piece while the next is built; side entries are
built during the sync.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.side_file import Noted, note

Piece = bytes | memoryview


class BlockFindings(NamedTuple):
    """The result of examining the lines of some commands."""

    noted: Noted
    odd: bool
    """Whether some commands may have a `problem`."""


class Block(ABC):
    """The lines of some commands."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Size of all lines in bytes."""

    @abstractmethod
    def pieces(self) -> Iterator[Piece]:
        """The lines in order; each piece contains the lines that are built together."""

    @abstractmethod
    def look(self, pieces: Sequence[Piece]) -> BlockFindings:
        """Examine the commands; *pieces* are the results of `pieces`."""


class CommandBlock(Sequence[CommandRecord], Block):
    """Commands whose lines are built without an object for each command."""


class RecordBlock(Block):
    """Commands with one object each."""

    def __init__(self, records: Sequence[CommandRecord]) -> None:
        self._records = records
        self._lines = [record.line for record in records]
        self._data = b"".join(self._lines)

    @property
    def size(self) -> int:
        """Size of all lines in bytes."""
        return len(self._data)

    def pieces(self) -> Iterator[Piece]:
        """The lines as one piece."""
        yield self._data

    def look(self, pieces: Sequence[Piece]) -> BlockFindings:  # noqa: ARG002
        """Examine the objects, which equal *pieces*."""
        noted, data = note(self._records, self._lines), self._data
        return BlockFindings(
            noted, bool(noted.nulls) or b"\r" in data or data.count(b"\n") != len(noted)
        )


def block_of(records: Sequence[CommandRecord]) -> Block:
    """The lines of *records*."""
    return records if isinstance(records, CommandBlock) else RecordBlock(records)
